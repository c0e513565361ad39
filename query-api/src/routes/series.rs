//! `GET /content-owners/series`: figures by hour or day, with zeros for buckets without events
//! (docs/api/reads.md#get-content-ownersseries).

pub(crate) mod buckets;
pub(crate) mod filled_series;

use super::coverage::{self, CoveredHours};
use crate::State;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::{ReadParameters, invalid};
use crate::read_limiter::AdmittedReader;
use crate::reads::{BucketLength, Cell, Split};
use crate::respond::accept_header::Format;
use crate::respond::page::{self, ResponseOptions};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use filled_series::{FilledSeries, Source};
use schemas::event::SourceRole;
use schemas::series_responses::{Series, SeriesItem};
use serde::Serialize;
use service_kit::http::{ApiError, Parameters};
use std::sync::Arc;

/// `true` if every value has an item in every bucket. For formats without an envelope.
const FILLED: HeaderName = HeaderName::from_static("x-series-filled");

/// Parses a bucket's length; the default is a day.
pub(crate) fn length_of(by: Option<&str>) -> Result<BucketLength, ApiError> {
    match by {
        Some("hour") => Ok(BucketLength::Hour),
        None | Some("day") => Ok(BucketLength::Day),
        Some(_) => Err(invalid("by must be one of: hour, day.")),
    }
}

pub(crate) fn name_of(by: BucketLength) -> &'static str {
    match by {
        BucketLength::Hour => "hour",
        BucketLength::Day => "day",
    }
}

/// Name, split and columns of a response.
pub(crate) type KnownSplit<S> = (&'static str, S, &'static [&'static str]);

/// Returns the split with this name; the default is the first one.
pub(crate) fn find_split<S: Copy>(known: &[KnownSplit<S>], asked: Option<&str>) -> Result<KnownSplit<S>, ApiError> {
    let found = known.iter().find(|(name, ..)| asked.is_none_or(|asked| asked == *name));
    found.copied().ok_or_else(|| {
        let names = known.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
        invalid(format!("split must be one of: {names}."))
    })
}

const SPLITS: [KnownSplit<Split>; 14] = [
    ("none", Split::Nothing, &["start", "total_events", "total_sessions", "covered_hours"]),
    ("type", Split::Type, &["start", "event_type", "total_events", "total_sessions", "other", "covered_hours"]),
    ("role", Split::Role, &["start", "source_role", "total_events", "total_sessions", "covered_hours"]),
    ("agent", Split::Agent, &["start", "platform_id", "agent_id", "total_events", "total_sessions", "other", "covered_hours"]),
    ("platform", Split::Platform, &["start", "platform_id", "total_events", "total_sessions", "other", "covered_hours"]),
    ("agent_or_bot", Split::AgentOrBot, &["start", "agent_or_bot", "total_events", "total_sessions", "other", "covered_hours"]),
    ("operator", Split::Operator, &["start", "operator", "total_events", "total_sessions", "other", "covered_hours"]),
    ("bot", Split::Bot, &["start", "bot", "total_events", "total_sessions", "other", "covered_hours"]),
    ("purpose", Split::Purpose, &["start", "purpose", "total_events", "total_sessions", "covered_hours"]),
    ("verified", Split::Verified, &["start", "verified", "total_events", "total_sessions", "covered_hours"]),
    ("status", Split::Status, &["start", "status", "total_events", "total_sessions", "other", "covered_hours"]),
    ("outcome", Split::Outcome, &["start", "outcome", "total_events", "total_sessions", "covered_hours"]),
    ("evidence", Split::Evidence, &["start", "evidence", "total_events", "total_sessions", "covered_hours"]),
    ("signature", Split::Signature, &["start", "signature", "total_events", "total_sessions", "covered_hours"]),
];

/// `GET /content-owners/series`, by default by day and not split.
pub(crate) async fn read_series(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    reading: AdmittedReader,
    headers: HeaderMap,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Response, ApiError> {
    asked.reject_unsupported_by_filtered(&["by", "split"])?;
    let filter = EventFilter::parse(&asked)?;
    let (by, (name, split, columns)) = (length_of(asked.get("by"))?, find_split(&SPLITS, asked.get("split"))?);
    let period = asked.period()?;
    // Reject a series that is too long before counting anything.
    buckets::for_period(&period, by, None)?;
    let visibility = Visibility::for_read(&state.directory, &reading.reader, &asked).await?;

    let (reads, permit) = (state.reads(&reading.permit), reading.permit);
    let coverage = coverage::coverage_for_figures(&state, &permit, &visibility, &period).await?;
    let answering = ResponseOptions::new(&headers, columns, permit);
    // JSON contains the coverage itself.
    let hours = coverage.as_ref().filter(|_| answering.format != Format::Json).map(CoveredHours::new);
    let cells = reads.series(&visibility, &period, (by, split), &filter).await?;
    let extent = cells.extent;
    let buckets = buckets::for_period(&period, by, extent.buckets)?;
    let filled = FilledSeries::begin(buckets, split == Split::Nothing, extent, Source::Stored(Box::new(cells))).await?;
    let envelope = Series {
        organization_id: visibility.organization_id(),
        domains: Some(visibility.domains().to_vec()),
        by: name_of(by).to_owned(),
        split: name.to_owned(),
        filled: filled.is_filled(),
        period_start: period.start,
        period_end: period.end,
        coverage,
        total: filled.total(),
        items: Vec::<()>::new(),
    };
    let covered = move |bucket: i64| hours.as_ref()?.within(bucket * by.ms(), (bucket + 1) * by.ms());
    let item = move |cell: Cell| SeriesItem { covered_hours: covered(cell.bucket), ..item(cell, by, split) };
    respond_series(answering, &envelope, filled, item).await
}

/// Returns a series; formats without an envelope have the `x-series-filled` header.
pub(crate) async fn respond_series<T: Serialize + 'static>(
    answering: ResponseOptions,
    envelope: &Series<()>,
    filled: FilledSeries,
    item: impl Fn(Cell) -> T + Send + Sync + 'static,
) -> Result<Response, ApiError> {
    let is_list = answering.format != Format::Json;
    let mut response = page::respond_with_total(answering, envelope, envelope.total, filled, item).await?;
    if is_list {
        let told = if envelope.filled { "true" } else { "false" };
        response.headers_mut().insert(FILLED, HeaderValue::from_static(told));
    }
    Ok(response)
}

/// Returns a role's name from its stored number.
pub(crate) fn role_named(number: &str) -> String {
    let role = number.parse().ok().and_then(SourceRole::from_code);
    role.map_or_else(String::new, |role| role.as_str().to_owned())
}

/// Parses the split value of `verified`; `None` if it is unknown.
fn verified_named(name: &str) -> Option<bool> {
    match name {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

fn item(cell: Cell, by: BucketLength, split: Split) -> SeriesItem {
    let (other, whose, name) = cell.value;
    let mut item = SeriesItem {
        start: buckets::start(cell.bucket, by),
        total_events: cell.events,
        total_sessions: cell.sessions,
        other,
        ..SeriesItem::default()
    };
    match split {
        Split::Nothing => {}
        Split::Type => item.event_type = Some(name),
        Split::Role => item.source_role = Some(role_named(&name)),
        Split::Agent => (item.platform_id, item.agent_id) = (Some(whose), Some(name)),
        Split::Platform => item.platform_id = Some(whose),
        Split::AgentOrBot => item.agent_or_bot = Some(name),
        Split::Operator => item.operator = Some(name),
        Split::Bot => item.bot = Some(name),
        Split::Purpose => item.purpose = Some(name),
        Split::Verified => item.verified = Some(verified_named(&name)),
        Split::Status => item.status = Some(name.parse().unwrap_or_default()),
        Split::Outcome => item.outcome = Some(name),
        Split::Evidence => item.evidence = Some(name),
        Split::Signature => item.signature = Some(name),
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::problem::Code;
    use serde_json::{Value, json};

    #[test]
    fn unknown_split_error_lists_all_splits() {
        let said = find_split(&SPLITS, Some("domain")).unwrap_err();
        assert_eq!(
            (said.code(), said.detail()),
            (
                Code::InvalidParameter,
                "split must be one of: none, type, role, agent, platform, agent_or_bot, operator, bot, purpose, verified, status, outcome, evidence, signature."
            )
        );
        for (asked, found) in [(None, Split::Nothing), (Some("none"), Split::Nothing), (Some("platform"), Split::Platform)] {
            assert_eq!(find_split(&SPLITS, asked).unwrap().1, found, "{asked:?}");
        }
    }

    #[test]
    fn items_have_their_splits_columns() {
        let told = |split: &str, other: bool, whose: &str, name: &str| {
            let (_, split, columns) = find_split(&SPLITS, Some(split)).unwrap();
            let cell =
                Cell { bucket: 1, value: (other, whose.to_owned(), name.to_owned()), events: 3, sessions: 2, ..Cell::default() };
            let item = serde_json::to_value(item(cell, BucketLength::Day, split)).unwrap();
            let is_shown = |column: &&str| *column != "covered_hours" && (other || *column != "other");
            let columns: Vec<&str> = columns.iter().copied().filter(is_shown).collect();
            assert_eq!(item.as_object().unwrap().len(), columns.len(), "{item}");
            columns.into_iter().map(|column| item[column].clone()).collect::<Vec<Value>>()
        };
        for (split, whose, name, values) in [
            ("none", "", "", vec![]),
            ("type", "", "content_cited", vec![json!("content_cited")]),
            ("role", "", "2", vec![json!("edge")]),
            ("agent", "p", "a", vec![json!("p"), json!("a")]),
            ("platform", "p", "", vec![json!("p")]),
            ("agent_or_bot", "", "b", vec![json!("b")]),
            ("operator", "", "o", vec![json!("o")]),
            ("bot", "", "b", vec![json!("b")]),
            ("purpose", "", "user", vec![json!("user")]),
            ("verified", "", "yes", vec![json!(true)]),
            ("verified", "", "no", vec![json!(false)]),
            ("verified", "", "", vec![Value::Null]),
            ("status", "", "404", vec![json!(404)]),
            ("status", "", "", vec![json!(0)]),
            ("outcome", "", "failed", vec![json!("failed")]),
            ("evidence", "", "claimed", vec![json!("claimed")]),
            ("signature", "", "valid", vec![json!("valid")]),
        ] {
            let expected = [vec![json!("1970-01-02T00:00:00.000Z")], values, vec![json!(3), json!(2)]].concat();
            assert_eq!(told(split, false, whose, name), expected, "{split} {name}");
        }
        let others = told("agent", true, "", "");
        assert_eq!(others[1..], [json!(""), json!(""), json!(3), json!(2), json!(true)]);
    }
}
