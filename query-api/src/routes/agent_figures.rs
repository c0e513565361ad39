//! `GET /agent/summary` and `GET /agent/series`: an organization's own reports, others' reports with its click tokens, and how its sessions
//! ended (docs/api/reads.md#get-agentsummary).
//!
//! Shows no more about other reporters than `/agent/events`. Events and outcomes come from two stores, so they can describe different
//! moments.

use super::series::filled_series::{FilledSeries, Source};
use super::series::{self, KnownSplit, buckets, find_split, role_named};
use crate::State;
use crate::access::visibility::OwnReports;
use crate::parameters::ReadParameters;
use crate::parameters::period::Period;
use crate::read_limiter::AdmittedReader;
use crate::reads::{BucketLength, Cell, Extent, OwnFigure, OwnSplit};
use crate::respond::page::ResponseOptions;
use crate::respond::streamed_response;
use axum::http::HeaderMap;
use axum::response::Response;
use schemas::event::SourceRole;
use schemas::series_responses::{
    AgentSeriesItem, AgentSummary, Clicks, OutcomeCount, OutcomeValue, Outcomes, OwnAgentCount, Series,
};
use schemas::summary_responses::{SourceCount, TypeCount};
use service_kit::http::{ApiError, Parameters};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) async fn read_own_summary(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_of_organization(&[])?;
    let own = OwnReports::for_reader(&reading.reader)?;
    let period = asked.period()?;
    let figures = state.reads(&reading.permit).own_figures(&own, &period).await?;
    let ended = state.outcomes.outcomes(reading.reader.tenant, &own, &period, None).await?;
    let summary = serde_json::to_vec(&assemble(&own, period, figures, &ended)).map_err(ApiError::internal)?;
    streamed_response::whole(summary, reading.permit)
}

fn assemble(own: &OwnReports, period: Period, figures: Vec<OwnFigure>, ended: &[Cell]) -> AgentSummary {
    let mut summary = AgentSummary {
        organization_id: own.organization_id(),
        total_events: 0,
        total_sessions: 0,
        events_by_type: Vec::new(),
        events_by_source: Vec::new(),
        agents: Vec::new(),
        clicks: Clicks::default(),
        outcomes: outcomes(ended),
        period_start: period.start,
        period_end: period.end,
    };
    let mut sources: Vec<(SourceRole, u64, u64)> = Vec::new();
    for OwnFigure { figure, is_other, name, events, sessions } in figures {
        let other = is_other == 1;
        match figure.as_str() {
            "total" => (summary.total_events, summary.total_sessions) = (events, sessions),
            "type" => summary.events_by_type.push(TypeCount { event_type: name, count: events, other }),
            "role" => sources.extend(name.parse().ok().and_then(SourceRole::from_code).map(|role| (role, events, sessions))),
            "agent" => summary.agents.push(OwnAgentCount { agent_id: name, event_count: events, session_count: sessions, other }),
            "clicks" => (summary.clicks.total_events, summary.clicks.total_sessions) = (events, sessions),
            _ => summary.clicks.events_by_type.push(TypeCount { event_type: name, count: events, other }),
        }
    }
    sources.sort_unstable();
    let source =
        |(role, count, sessions): (SourceRole, u64, u64)| SourceCount { source_role: role.as_str().to_owned(), count, sessions };
    summary.events_by_source = sources.into_iter().map(source).collect();
    for types in [&mut summary.events_by_type, &mut summary.clicks.events_by_type] {
        types.sort_by(|a, b| (a.other, b.count, &a.event_type).cmp(&(b.other, a.count, &b.event_type)));
    }
    summary.agents.sort_by(|a, b| (a.other, b.event_count, &a.agent_id).cmp(&(b.other, a.event_count, &b.agent_id)));
    summary
}

fn outcomes(ended: &[Cell]) -> Outcomes {
    let mut types: BTreeMap<&str, u64> = BTreeMap::new();
    let mut currencies: BTreeMap<&str, (u64, u128)> = BTreeMap::new();
    for Cell { value: (_, outcome_type, currency), outcomes, amount, .. } in ended {
        *types.entry(outcome_type).or_default() += outcomes;
        let (count, value) = currencies.entry(currency).or_default();
        (*count, *value) = (*count + outcomes, *value + amount);
    }
    let by_type = types.iter().map(|(name, count)| OutcomeCount { outcome_type: (*name).to_owned(), count: *count });
    let mut by_type: Vec<OutcomeCount> = by_type.collect();
    by_type.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.outcome_type.cmp(&b.outcome_type)));
    let value = |(currency, (count, value_amount)): (&str, (u64, u128))| OutcomeValue {
        currency: currency.to_owned(),
        count,
        value_amount,
    };
    Outcomes { total: types.values().sum(), by_type, by_currency: currencies.into_iter().map(value).collect() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentSplit {
    Reports(OwnSplit),
    Outcome,
}

const SPLITS: [KnownSplit<AgentSplit>; 5] = [
    ("none", AgentSplit::Reports(OwnSplit::Nothing), &["start", "total_events", "total_sessions", "clicks", "outcomes"]),
    ("type", AgentSplit::Reports(OwnSplit::Type), &["start", "event_type", "total_events", "total_sessions", "clicks", "other"]),
    ("role", AgentSplit::Reports(OwnSplit::Role), &["start", "source_role", "total_events", "total_sessions"]),
    ("agent", AgentSplit::Reports(OwnSplit::Agent), &["start", "agent_id", "total_events", "total_sessions", "other"]),
    ("outcome", AgentSplit::Outcome, &["start", "outcome_type", "currency", "outcomes", "value_amount"]),
];

/// `GET /agent/series`, by default by day and not split.
pub(crate) async fn read_own_series(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_of_organization(&["by", "split"])?;
    let (by, (name, split, columns)) = (series::length_of(asked.get("by"))?, find_split(&SPLITS, asked.get("split"))?);
    let own = OwnReports::for_reader(&reading.reader)?;
    let period = asked.period()?;
    // Reject a series that is too long before counting anything.
    buckets::for_period(&period, by, None)?;

    let is_whole = split == AgentSplit::Reports(OwnSplit::Nothing);
    let ended = if is_whole || split == AgentSplit::Outcome {
        state.outcomes.outcomes(reading.reader.tenant, &own, &period, Some(by)).await?
    } else {
        Vec::new()
    };
    let of_outcomes = extent_of(&ended);
    let mut per_bucket: BTreeMap<i64, u64> = BTreeMap::new();
    let (extent, source) = match split {
        AgentSplit::Outcome => (of_outcomes, Source::Loaded(ended.into_iter())),
        AgentSplit::Reports(split) => {
            ended.iter().for_each(|cell| *per_bucket.entry(cell.bucket).or_default() += cell.outcomes);
            let cells = state.reads(&reading.permit).own_series(&own, &period, by, split).await?;
            let both = Extent { buckets: around(cells.extent.buckets, of_outcomes.buckets), ..cells.extent };
            (both, Source::Stored(Box::new(cells)))
        }
    };
    let filled = FilledSeries::begin(buckets::for_period(&period, by, extent.buckets)?, is_whole, extent, source).await?;
    let envelope = Series {
        organization_id: own.organization_id(),
        domains: None,
        by: series::name_of(by).to_owned(),
        split: name.to_owned(),
        filled: filled.is_filled(),
        period_start: period.start,
        period_end: period.end,
        coverage: None,
        total: filled.total(),
        items: Vec::<()>::new(),
    };
    let answering = ResponseOptions::new(&headers, columns, reading.permit);
    let item = move |cell: Cell| {
        let outcomes = per_bucket.get(&cell.bucket).copied().unwrap_or_default();
        item(cell, by, split, outcomes)
    };
    series::respond_series(answering, &envelope, filled, item).await
}

fn extent_of(cells: &[Cell]) -> Extent {
    let mut values: Vec<_> = cells.iter().map(|cell| &cell.value).collect();
    values.sort_unstable();
    values.dedup();
    Extent {
        buckets: cells.first().zip(cells.last()).map(|(first, last)| (first.bucket, last.bucket)),
        values: values.len() as u64,
        longest: values.iter().map(|(_, whose, name)| (whose.len() + name.len()) as u64).max().unwrap_or_default(),
        cells: cells.len() as u64,
    }
}

/// Returns the range from the first bucket of either store to the last bucket of either.
fn around(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some((first, last)), Some((other_first, other_last))) => Some((first.min(other_first), last.max(other_last))),
        (one, other) => one.or(other),
    }
}

fn item(cell: Cell, by: BucketLength, split: AgentSplit, outcomes: u64) -> AgentSeriesItem {
    let (other, whose, name) = cell.value;
    let start = buckets::start(cell.bucket, by);
    let AgentSplit::Reports(split) = split else {
        let (outcome_type, currency) = (Some(whose), Some(name));
        let (outcomes, value_amount) = (Some(cell.outcomes), Some(cell.amount));
        return AgentSeriesItem { start, outcome_type, currency, outcomes, value_amount, ..AgentSeriesItem::default() };
    };
    let (total_events, total_sessions) = (Some(cell.events), Some(cell.sessions));
    let mut item = AgentSeriesItem { start, total_events, total_sessions, other, ..AgentSeriesItem::default() };
    match split {
        OwnSplit::Nothing => (item.clicks, item.outcomes) = (Some(cell.clicks), Some(outcomes)),
        OwnSplit::Type => (item.event_type, item.clicks) = (Some(name), Some(cell.clicks)),
        OwnSplit::Role => item.source_role = Some(role_named(&name)),
        OwnSplit::Agent => item.agent_id = Some(name),
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::reader::Reader;
    use schemas::identity::OrgType;
    use schemas::ids::{ApiKeyId, OrgId};
    use serde_json::{Value, json};
    use service_kit::auth::{Credential, Tenant};
    use uuid::Uuid;

    fn ended(bucket: i64, outcome_type: &str, currency: &str, outcomes: u64, amount: u128) -> Cell {
        Cell { bucket, value: (false, outcome_type.to_owned(), currency.to_owned()), outcomes, amount, ..Cell::default() }
    }

    #[test]
    fn outcome_sums_can_exceed_64_bits() {
        let large = u128::from(u64::MAX);
        let cells =
            [ended(1, "browse", "EUR", 1, 0), ended(1, "conversion", "EUR", 2, large), ended(2, "conversion", "USD", 4, large)];
        let told = outcomes(&[cells.as_slice(), &[ended(3, "conversion", "USD", 1, large)]].concat());
        assert_eq!(told.total, 8);
        let types: Vec<_> = told.by_type.iter().map(|of| (of.outcome_type.as_str(), of.count)).collect();
        assert_eq!(types, [("conversion", 7), ("browse", 1)]);
        let values: Vec<_> = told.by_currency.iter().map(|of| (of.currency.as_str(), of.count, of.value_amount)).collect();
        assert_eq!(values, [("EUR", 3, large), ("USD", 5, 2 * large)]);
    }

    #[test]
    fn summary_figures_are_sorted_by_count() {
        let credential = Credential::Key(ApiKeyId(Uuid::nil()));
        let (org_id, org_type) = (OrgId(Uuid::nil()), OrgType::Agent);
        let own = OwnReports::for_reader(&Reader { credential, tenant: Tenant::Organization(org_id), org_id, org_type }).unwrap();
        let figure = |(figure, name, events, sessions): (&str, &str, u64, u64)| {
            let (figure, name) = (figure.to_owned(), name.to_owned());
            let is_other = u8::from(name.is_empty() && figure != "total" && figure != "clicks");
            OwnFigure { figure, is_other, name, events, sessions }
        };
        let figures = [
            ("click", "content_engaged", 3, 2),
            ("click", "", 2, 2),
            ("agent", "", 7, 3),
            ("type", "content_cited", 3, 2),
            ("role", "2", 1, 0),
            ("agent", "a", 2, 1),
            ("total", "", 9, 3),
            ("role", "1", 8, 3),
            ("type", "content_retrieved", 6, 3),
            ("agent", "b", 6, 2),
            ("clicks", "", 5, 2),
        ];
        let summary = assemble(&own, Period::default(), figures.map(figure).into(), &[]);
        let told = serde_json::to_value(&summary).unwrap();
        let expected = json!({
            "organization_id": Uuid::nil(),
            "total_events": 9,
            "total_sessions": 3,
            "events_by_type": [{"event_type": "content_retrieved", "count": 6}, {"event_type": "content_cited", "count": 3}],
            "events_by_source":
                [{"source_role": "agent", "count": 8, "sessions": 3}, {"source_role": "edge", "count": 1, "sessions": 0}],
            "agents": [
                {"agent_id": "b", "event_count": 6, "session_count": 2},
                {"agent_id": "a", "event_count": 2, "session_count": 1},
                {"agent_id": "", "event_count": 7, "session_count": 3, "other": true},
            ],
            "clicks": {
                "total_events": 5,
                "total_sessions": 2,
                "events_by_type": [{"event_type": "content_engaged", "count": 3}, {"event_type": "", "count": 2, "other": true}],
            },
            "outcomes": {"total": 0, "by_type": [], "by_currency": []},
            "period_start": null,
            "period_end": null,
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn items_have_their_splits_columns() {
        let cell = |whose: &str, name: &str| Cell {
            value: (false, whose.to_owned(), name.to_owned()),
            ..Cell { bucket: 1, events: 7, sessions: 6, clicks: 5, outcomes: 4, amount: 3, ..Cell::default() }
        };
        for (split, cell, values) in [
            ("none", cell("", ""), json!([7, 6, 5, 2])),
            ("type", cell("", "content_cited"), json!(["content_cited", 7, 6, 5])),
            ("role", cell("", "1"), json!(["agent", 7, 6])),
            ("agent", cell("", "a"), json!(["a", 7, 6])),
            ("outcome", cell("browse", "EUR"), json!(["browse", "EUR", 4, 3])),
        ] {
            let (_, split, columns) = find_split(&SPLITS, Some(split)).unwrap();
            let item = serde_json::to_value(item(cell, BucketLength::Hour, split, 2)).unwrap();
            let columns = columns.strip_suffix(&["other"]).unwrap_or(columns);
            assert_eq!(item.as_object().unwrap().len(), columns.len(), "{item}");
            assert_eq!((columns[0], &item["start"]), ("start", &json!("1970-01-01T01:00:00.000Z")));
            assert_eq!(columns[1..].iter().map(|column| item[*column].clone()).collect::<Value>(), values, "{split:?}");
        }
    }

    #[test]
    fn series_spans_the_buckets_of_both_stores() {
        assert_eq!(around(Some((3, 5)), Some((1, 4))), Some((1, 5)));
        assert_eq!(
            (around(Some((3, 5)), None), around(None, Some((1, 4))), around(None, None)),
            (Some((3, 5)), Some((1, 4)), None)
        );
    }
}
