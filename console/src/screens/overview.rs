//! The overview: a summary in words, six figures, a chart, and a table of agents.
//!
//! Sums and shares are computed only from figures in one response, so they match the API. A card whose read fails shows an error; other
//! cards are still shown.

use super::funnel::FUNNEL;
use super::{FETCHES, Filters, TableFooter, agent_or_bot};
use crate::State;
use crate::api::{Parameters, SessionClient};
use crate::chart::{Chart, Sparkline};
use crate::coverage::{Coverage, CoverageResponse};
use crate::failure::{Card, Failure, card};
use crate::layout::{Layout, Page};
use crate::numbers::{Change, Count, Share, ShareChange, grouped};
use crate::query::Query;
use crate::responses::{CorroboratedDay, FunnelItem, List, Series, SeriesItem, SourceCount, Summary};
use crate::session::Member;
use crate::sort::Headings;
use crate::window::{Comparison, PeriodParameters, Window};
use askama::Template;
use axum::extract::State as Shared;
use chrono::NaiveDate;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Event types in the chart, with their labels, after fetches and before all other events.
const TYPES: [(&str, &str); 3] =
    [("content_grounded", "Groundings"), ("content_cited", "Citations"), ("content_presented", "Presentations")];
const FETCHED: &str = "Fetches";
const OTHERS: &str = "Other events";
const SPLITS: [(&str, &str); 2] = [("type", "By type"), ("agent_or_bot", "By agent or bot")];
const AGENTS: &str = "10";
const SUMMARY: &str = "/content-owners/summary";
const SERIES: &str = "/content-owners/series";
pub(super) const COVERAGE: &str = "/content-owners/coverage";

#[derive(Template)]
#[template(path = "overview.html")]
pub(crate) struct Overview {
    frame: Layout,
    filters: Filters,
    home: String,
    /// Address of the page, for cards that couldn't be loaded.
    again: String,
    /// Whether the period is known to have no events.
    is_empty: bool,
    sentence: Option<String>,
    tiles: Vec<Tile>,
    note: Option<String>,
    /// Requests that aren't fetches.
    not_fetched: Option<String>,
    splits: [(&'static str, &'static str); 2],
    split: &'static str,
    chart: Card<Chart>,
    behind: TableFooter,
    headings: Headings,
    agents: Card<Vec<FunnelItem>>,
    behind_agents: TableFooter,
    sources: Card<Vec<SourceCount>>,
    behind_sources: TableFooter,
    coverage: Card<Coverage>,
    behind_coverage: TableFooter,
}

/// One of the figures; `None` if it couldn't be loaded.
struct Tile {
    name: &'static str,
    label: &'static str,
    figure: Option<Figure>,
    /// The change, and the period that the figure is compared with; `None` without comparison.
    change: Option<(Difference, String)>,
    sparkline: Option<Sparkline>,
}

enum Figure {
    Count(Count),
    Share(Share),
}

enum Difference {
    Count(Change),
    Share(ShareChange),
}

impl askama::filters::HtmlSafe for Figure {}
impl askama::filters::HtmlSafe for Difference {}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Share(share) => share.fmt(f),
        }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(change) => change.fmt(f),
            Self::Share(change) => change.fmt(f),
        }
    }
}

/// The part of `GET /content-owners/crawlers` that counts visits.
#[derive(Deserialize)]
struct Visits {
    operators: Vec<OperatorVisits>,
    unattributed: OperatorVisits,
}

#[derive(Deserialize)]
struct OperatorVisits {
    clicks: Count,
}

impl Visits {
    fn total(&self) -> u64 {
        self.operators.iter().chain([&self.unattributed]).map(|visited| visited.clicks.0).sum()
    }
}

/// The figures of one period.
struct Period {
    summary: Card<Summary>,
    /// Requests by outcome.
    outcomes: Card<Series>,
    visits: Card<Visits>,
    seen: Card<Vec<CorroboratedDay>>,
}

impl Period {
    async fn read(api: &SessionClient, period: &Parameters, bucket: &'static str) -> Result<Self, Failure> {
        let with = |more: &[(&'static str, &str)]| -> Parameters {
            period.iter().cloned().chain(more.iter().map(|(name, value)| (*name, (*value).to_owned()))).collect()
        };
        let (by_outcome, one) = (with(&[("by", bucket), ("split", "outcome")]), with(&[("limit", "1")]));
        let (summary, outcomes, visits, seen) = tokio::join!(
            api.get(SUMMARY, period),
            api.get(SERIES, &by_outcome),
            api.get("/content-owners/crawlers", &one),
            corroboration(api, period)
        );
        Ok(Self { summary: card(summary)?, outcomes: card(outcomes)?, visits: card(visits)?, seen: card(seen)? })
    }

    fn of_type(&self, event_type: &str) -> Option<u64> {
        self.summary.as_ref().ok().map(|summary| summary.of_type(event_type))
    }

    fn of_outcome(&self, outcome: &str) -> Option<u64> {
        self.outcomes.as_ref().ok().map(|series| series.of_outcome(outcome))
    }

    fn visits(&self) -> Option<u64> {
        self.visits.as_ref().ok().map(Visits::total)
    }

    /// Returns the engagements. The API's number includes visits, which are a separate measure.
    fn engagements(&self) -> Option<u64> {
        Some(self.of_type("content_engaged")?.saturating_sub(self.visits()?))
    }

    fn claims(&self) -> Option<Share> {
        self.seen.as_ref().ok().map(|seen| claims(seen))
    }
}

/// `GET /console/o/{organization}/overview`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Overview>, Failure> {
    let filters = Filters::read(&state, &member, "overview", &asked).await?;
    let (api, window, at) = (member.api(), &filters.window, state.clock.now());
    let split = SPLITS.iter().map(|(name, _)| *name).find(|name| *name == asked.split).unwrap_or("type");
    let series = |split| window.parameters_and(&[("by", window.bucket()), ("split", split)]);
    let (whole, comparison) = (window.parameters(), window.comparison(at));
    let (shown, by_type) = (series(split), series("type"));
    let hours_of = window.unfiltered().parameters();
    let by_agent = window.parameters_and(&[("by", "agent"), ("sort", asked.sort.as_str()), ("limit", AGENTS)]);
    let (now, earlier, types, drawn, funnel, hours) = tokio::join!(
        Period::read(&api, &whole, window.bucket()),
        async {
            match &comparison {
                Some(comparison) => Period::read(&api, &comparison.parameters(), window.bucket()).await.map(Some),
                None => Ok(None),
            }
        },
        api.get::<Series>(SERIES, &by_type),
        // The series by type is requested anyway.
        async { if split == "type" { Ok(None) } else { api.get::<Series>(SERIES, &shown).await.map(Some) } },
        api.get::<List<FunnelItem>>(FUNNEL, &by_agent),
        api.get::<CoverageResponse>(COVERAGE, &hours_of),
    );
    let (now, earlier, types, drawn) = (now?, earlier?, card(types)?, card(drawn)?);
    let is_hourly = window.bucket() == "hour";
    let by_type = both(&types, &now.outcomes).map(|(types, outcomes)| by_type_of(types, outcomes, is_hourly).until(at));
    let chart = match (drawn, &types) {
        (Ok(None), _) => by_type.clone(),
        (Ok(Some(drawn)), _) => {
            let chart = Chart::new("Events by agent or bot", &drawn.items, is_hourly, agent_or_bot);
            Ok(chart.with_gaps(drawn.coverage.as_ref()).until(at).linked(|line| filters.with_line(split, line)))
        }
        (Err(failed), _) => Err(failed),
    };
    let summary = now.summary.as_ref();
    let before = comparison.as_ref().zip(earlier.as_ref());
    Ok(Page(Overview {
        frame: member.frame("Overview", &window.query()),
        home: member.organization.home(),
        again: format!("{}?{}", filters.here, window.query_and(&[("split", split), ("sort", &asked.sort)])),
        is_empty: summary.is_ok_and(|summary| summary.total_events == 0) && not_fetched(&now).is_none(),
        sentence: sentence(window, before, &now),
        tiles: tiles(before, &now, by_type.as_ref().ok()),
        note: comparison.as_ref().and_then(Comparison::note),
        not_fetched: not_fetched(&now),
        splits: SPLITS,
        split,
        chart,
        behind: TableFooter::new(&state, &member, "series", SERIES, &shown),
        headings: filters.headings(&asked, &[("split", split)], ""),
        agents: card(funnel)?.map(|page| page.items),
        behind_agents: TableFooter::new(&state, &member, "funnel", FUNNEL, &by_agent),
        sources: now.summary.map(|summary| summary.events_by_source),
        behind_sources: TableFooter::new(&state, &member, "observers", SUMMARY, &whole),
        coverage: card(hours)?.map(|hours| hours.coverage.until(at)),
        behind_coverage: TableFooter::new(&state, &member, "coverage", COVERAGE, &hours_of),
        filters,
    }))
}

fn both<'a, A, B>(one: &'a Card<A>, other: &'a Card<B>) -> Card<(&'a A, &'a B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(failed), _) | (_, Err(failed)) => Err(failed.clone()),
    }
}

/// Returns the chart by type. Its sum includes all events, like every other split's.
fn by_type_of(types: &Series, outcomes: &Series, is_hourly: bool) -> Chart {
    let named = |item: &SeriesItem| TYPES.iter().find(|(name, _)| *name == item.event_type).map(|(_, label)| *label);
    let fetched = outcomes.items.iter().filter(|item| item.outcome == FETCHES.1);
    let copy = |item: &SeriesItem, label: &str| SeriesItem {
        start: item.start,
        event_type: label.to_owned(),
        total_events: item.total_events,
        ..SeriesItem::default()
    };
    let known = types.items.iter().filter_map(|item| Some(copy(item, named(item)?)));
    let items = known.chain(fetched.map(|item| copy(item, FETCHED))).collect();
    let all = Series { items, coverage: None }.completed_to(&types.items).items;
    let chart = Chart::new("Events", &all, is_hourly, |item| {
        if item.event_type.is_empty() { OTHERS.to_owned() } else { item.event_type.clone() }
    });
    let lines = [FETCHED].into_iter().chain(TYPES.map(|(_, label)| label)).chain([OTHERS]).map(|label| (label, label));
    chart.ordered(&lines.collect::<Vec<_>>()).with_gaps(types.coverage.as_ref())
}

/// Returns the days from all pages.
pub(super) async fn corroboration(api: &SessionClient, period: &Parameters) -> Result<Vec<CorroboratedDay>, Failure> {
    let mut all: Vec<CorroboratedDay> = Vec::new();
    loop {
        let offset = all.len().to_string();
        let page = [("by", "day".to_owned()), ("limit", "1000".to_owned()), ("offset", offset)];
        let parameters = period.iter().cloned().chain(page).collect();
        let page: List<CorroboratedDay> = api.get("/content-owners/corroboration", &parameters).await?;
        let is_last = page.items.is_empty();
        all.extend(page.items);
        if is_last || all.len() as u64 >= page.total {
            return Ok(all);
        }
    }
}

/// Returns the share of claimed fetches that another organization's server confirmed.
pub(super) fn claims(rows: &[CorroboratedDay]) -> Share {
    let both: u64 = rows.iter().map(|row| row.seen_by_both.0).sum();
    Share { part: both, whole: both + rows.iter().map(|row| row.claimed_by_agent_only.0).sum::<u64>() }
}

/// A comparison period and its figures.
type Before<'a> = Option<(&'a Comparison, &'a Period)>;

fn sentence(window: &Window, before: Before<'_>, now: &Period) -> Option<String> {
    let times = |number: u64| if number == 1 { "once".to_owned() } else { format!("{} times", grouped(number)) };
    let counted = |number: u64, one: &str| match number {
        1 => format!("one {one}"),
        more => format!("{} {one}s", grouped(more)),
    };
    let before = match before {
        Some((comparison, earlier)) => match earlier.of_outcome("fetch")? {
            0 => format!(" ({}: none)", comparison.days()),
            fetched => format!(" ({}: {})", comparison.days(), grouped(fetched)),
        },
        None => String::new(),
    };
    let summary = now.summary.as_ref().ok()?;
    let agents = match summary.agents.iter().filter(|agent| !agent.agent_id.is_empty()).count() {
        0 => String::new(),
        1 => " One agent reported its activity.".to_owned(),
        more => format!(" {} agents reported their activity.", grouped(more as u64)),
    };
    let (told, fetched) = (window.describe(), times(now.of_outcome("fetch")?));
    let cited = times(summary.of_type("content_cited"));
    let (engagements, visits) = (counted(now.engagements()?, "engagement"), counted(now.visits()?, "visit"));
    Some(format!(
        "Your content was fetched {fetched} {told}{before}. \
         It was cited {cited} and led to {engagements} and {visits}.{agents}"
    ))
}

/// Returns a sentence about requests that returned no content; `None` without such requests.
fn not_fetched(now: &Period) -> Option<String> {
    let counted = |outcome: &str, one: &str| match now.of_outcome(outcome)? {
        0 => None,
        1 => Some(format!("one {one}")),
        more => Some(format!("{} {one}s", grouped(more))),
    };
    let failed = counted("failed", "failed fetch").map(|told| told.replace("fetchs", "fetches"));
    let all: Vec<String> = failed.into_iter().chain(counted("revalidation", "revalidation")).collect();
    (!all.is_empty()).then(|| format!("Not counted as fetches: {}.", all.join(" and ")))
}

/// A figure of one period.
type Measure<'a> = &'a dyn Fn(&Period) -> Option<u64>;

fn tiles(before: Before<'_>, now: &Period, types: Option<&Chart>) -> Vec<Tile> {
    // If the earlier figure is missing, the tile couldn't be loaded.
    let count = |name: &'static str, label: &'static str, of: Measure<'_>, line: Option<usize>| {
        let change = before.map(|(comparison, earlier)| {
            let change = of(now).zip(of(earlier)).map(|(now, before)| Difference::Count(Change { now, before }));
            change.map(|change| (change, comparison.label()))
        });
        let figure = of(now).filter(|_| change.as_ref().is_none_or(Option::is_some)).map(|now| Figure::Count(Count(now)));
        Tile {
            name,
            label,
            figure,
            change: change.flatten(),
            sparkline: types.zip(line).map(|(types, line)| Sparkline::new(types, line)),
        }
    };
    let share = now.claims();
    let change = before.map(|(comparison, earlier)| {
        let shares = share.zip(earlier.claims());
        shares.map(|(now, before)| (Difference::Share(ShareChange { now, before }), comparison.label()))
    });
    vec![
        count("retrieved", "Fetches", &|period| period.of_outcome("fetch"), Some(0)),
        count("cited", "Citations", &|period| period.of_type("content_cited"), Some(2)),
        count("presented", "Presentations", &|period| period.of_type("content_presented"), Some(3)),
        count("engaged", "Engagements", &Period::engagements, None),
        count("visited", "Visits", &Period::visits, None),
        Tile {
            name: "corroborated",
            label: "Claims confirmed",
            figure: share.filter(|_| change.as_ref().is_none_or(Option::is_some)).map(Figure::Share),
            change: change.flatten(),
            sparkline: types.zip(now.seen.as_ref().ok()).map(|(types, seen)| confirmed(types, seen)),
        },
    ]
}

/// Returns the line of confirmed claims, in the chart's buckets.
fn confirmed(types: &Chart, seen: &[CorroboratedDay]) -> Sparkline {
    let mut by_start: BTreeMap<NaiveDate, u64> = types.starts.iter().map(|start| (start.date_naive(), 0)).collect();
    for row in seen {
        *by_start.entry(types.begin_of(row.day)).or_default() += row.seen_by_both.0;
    }
    Sparkline { figures: by_start.into_values().map(Some).collect(), is_open: types.is_open }
}
