//! The overview: a summary in words, five figures, a chart, and a table of agents.
//!
//! Sums and shares are computed only from figures of one response, so they match the API.

use super::{Behind, Filters, reporter};
use crate::State;
use crate::answers::{ALL_OTHERS, CorroboratedDay, FunnelItem, List, Series, SeriesItem, SourceCount, Summary};
use crate::api::{Asker, Parameters};
use crate::chart::{Chart, Sparkline};
use crate::coverage::{Coverage, Covered};
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::numbers::{Change, Count, Share, ShareChange, grouped};
use crate::query::Query;
use crate::session::Member;
use crate::sort::Headings;
use crate::window::{Comparison, PeriodParameters, Window};
use askama::Template;
use axum::extract::State as Shared;
use chrono::NaiveDate;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Event types of the chart, with their labels.
const TYPES: [(&str, &str); 5] = [
    ("content_retrieved", "Fetches"),
    ("content_grounded", "Groundings"),
    ("content_cited", "Citations"),
    ("content_presented", "Presentations"),
    ("content_engaged", "Engagements"),
];
const SPLITS: [(&str, &str); 3] = [("type", "By type"), ("agent", "By agent"), ("role", "By reporter")];
const AGENTS: &str = "10";
/// Label of the chart's line without an agent, which the table splits into two rows.
const NO_AGENT: &str = "Unknown or undeclared";

#[derive(Template)]
#[template(path = "overview.html")]
pub(crate) struct Overview {
    frame: Frame,
    filters: Filters,
    home: String,
    total: Count,
    sentence: String,
    tiles: Vec<Tile>,
    note: Option<String>,
    splits: [(&'static str, &'static str); 3],
    split: &'static str,
    chart: Chart,
    behind: Behind,
    headings: Headings,
    agents: Vec<FunnelItem>,
    behind_agents: Behind,
    sources: Vec<SourceCount>,
    behind_sources: Behind,
    coverage: Coverage,
    behind_coverage: Behind,
}

/// One of the five figures. `figure` and `change` are safe HTML.
struct Tile {
    name: &'static str,
    label: &'static str,
    figure: Figure,
    change: Difference,
    compared: String,
    sparkline: Sparkline,
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

/// `GET /console/o/{organization}/overview`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Overview>, Failure> {
    let filters = Filters::read(&state, &member, "overview", &asked).await?;
    let (api, window) = (member.api(), &filters.window);
    let split = SPLITS.iter().map(|(name, _)| *name).find(|name| *name == asked.split).unwrap_or("type");
    let series = |split| window.parameters_and(&[("by", window.bucket()), ("split", split)]);
    let by_agent = [("by", "agent"), ("sort", asked.sort.as_str()), ("limit", AGENTS)];
    let (shown, by_agent) = (series(split), window.parameters_and(&by_agent));
    let by_type = series("type");
    let (whole, comparison) = (window.parameters(), window.comparison(state.clock.now()));
    let before = comparison.parameters();
    let (now, earlier, types, drawn, funnel, seen, seen_earlier, hours) = tokio::try_join!(
        summary(&api, &whole),
        summary(&api, &before),
        api.get::<Series>("/content-owners/series", &by_type),
        // The series by type is requested anyway.
        async { if split == "type" { Ok(None) } else { api.get::<Series>("/content-owners/series", &shown).await.map(Some) } },
        api.get::<List<FunnelItem>>("/content-owners/funnel", &by_agent),
        corroboration(&api, &whole),
        corroboration(&api, &before),
        covered(&api, &whole),
    )?;
    let is_hourly = window.bucket() == "hour";
    let types = by_step(types.items, is_hourly).until(state.clock.now());
    let drawn = drawn.map(|drawn| match split {
        "agent" => Chart::of("Events by agent", &drawn.items, is_hourly, |item| match item.agent_id.as_str() {
            _ if item.other => ALL_OTHERS.to_owned(),
            "" => NO_AGENT.to_owned(),
            name => name.to_owned(),
        }),
        _ => Chart::of("Events by reporter", &drawn.items, is_hourly, |item| reporter(&item.source_role).to_owned()),
    });
    let chart = drawn.map_or_else(|| types.clone(), |drawn| drawn.until(state.clock.now()));
    Ok(Page(Overview {
        frame: member.frame("Overview", &window.query()),
        home: member.organization.home(),
        total: Count(now.total_events),
        sentence: sentence(window, &comparison, &now, &earlier),
        tiles: tiles(&comparison.label(), (&now, &earlier), &types, (&seen, &seen_earlier)),
        note: comparison.note(),
        splits: SPLITS,
        split,
        chart,
        behind: Behind::of(&state, &member, "series", "/content-owners/series", &shown),
        headings: filters.headings(&asked, &[("split", split)], ""),
        agents: funnel.items,
        behind_agents: Behind::of(&state, &member, "funnel", "/content-owners/funnel", &by_agent),
        sources: now.events_by_source,
        behind_sources: Behind::of(&state, &member, "observers", "/content-owners/summary", &window.parameters()),
        coverage: hours.coverage.until(state.clock.now()),
        behind_coverage: Behind::of(&state, &member, "coverage", "/content-owners/coverage", &window.parameters()),
        filters,
    }))
}

/// Returns the chart by step. Other types would exceed the maximum number of lines and be summed with steps.
fn by_step(mut items: Vec<SeriesItem>, is_hourly: bool) -> Chart {
    items.retain(|item| TYPES.iter().any(|(name, _)| *name == item.event_type));
    Chart::of("Events", &items, is_hourly, |item| item.event_type.clone()).ordered(&TYPES)
}

async fn summary(api: &Asker, period: &Parameters) -> Result<Summary, Failure> {
    api.get("/content-owners/summary", period).await
}

async fn covered(api: &Asker, period: &Parameters) -> Result<Covered, Failure> {
    api.get("/content-owners/coverage", period).await
}

/// Returns the days of all pages.
pub(super) async fn corroboration(api: &Asker, period: &Parameters) -> Result<Vec<CorroboratedDay>, Failure> {
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

/// The share of claimed fetches that a server of another organization confirmed.
pub(super) fn claims(rows: &[CorroboratedDay]) -> Share {
    let both: u64 = rows.iter().map(|row| row.seen_by_both.0).sum();
    Share { part: both, whole: both + rows.iter().map(|row| row.claimed_by_agent_only.0).sum::<u64>() }
}

fn sentence(window: &Window, comparison: &Comparison, now: &Summary, earlier: &Summary) -> String {
    let times = |number: u64| if number == 1 { "once".to_owned() } else { format!("{} times", grouped(number)) };
    let (retrieved, before) = (now.of_type("content_retrieved"), earlier.of_type("content_retrieved"));
    let agents = match now.agents.iter().filter(|agent| !agent.agent_id.is_empty()).count() {
        0 => String::new(),
        1 => " One agent reported its activity.".to_owned(),
        more => format!(" Activity was reported by {} agents.", grouped(more as u64)),
    };
    let (cited, engaged) = (now.of_type("content_cited"), now.of_type("content_engaged"));
    let before = if before == 0 { "none".to_owned() } else { grouped(before) };
    let (told, earlier, retrieved, cited) = (window.told(), comparison.days(), times(retrieved), times(cited));
    let engagements = if engaged == 1 { "one engagement".to_owned() } else { format!("{} engagements", grouped(engaged)) };
    format!(
        "Your content was fetched {retrieved} {told} ({earlier}: {before}). \
         It was cited {cited} and led to {engagements}.{agents}"
    )
}

fn tiles(
    compared: &str,
    (now, earlier): (&Summary, &Summary),
    types: &Chart,
    (seen, seen_earlier): (&[CorroboratedDay], &[CorroboratedDay]),
) -> Vec<Tile> {
    let count = |name: &'static str, label: &'static str, event_type: &str, line: usize| Tile {
        name,
        label,
        figure: Figure::Count(Count(now.of_type(event_type))),
        change: Difference::Count(Change { now: now.of_type(event_type), before: earlier.of_type(event_type) }),
        compared: compared.to_owned(),
        sparkline: Sparkline { figures: types.lines[line].figures.clone(), is_open: types.is_open },
    };
    // The buckets of the chart, also those without claims.
    let mut by_start: BTreeMap<NaiveDate, u64> = types.starts.iter().map(|start| (start.date_naive(), 0)).collect();
    for row in seen {
        *by_start.entry(types.begin_of(row.day)).or_default() += row.seen_by_both.0;
    }
    vec![
        count("retrieved", "Fetches", "content_retrieved", 0),
        count("cited", "Citations", "content_cited", 2),
        count("presented", "Presentations", "content_presented", 3),
        count("clicked", "Engagements", "content_engaged", 4),
        Tile {
            name: "corroborated",
            label: "Claims confirmed",
            figure: Figure::Share(claims(seen)),
            change: Difference::Share(ShareChange { now: claims(seen), before: claims(seen_earlier) }),
            compared: compared.to_owned(),
            sparkline: Sparkline { figures: by_start.into_values().collect(), is_open: types.is_open },
        },
    ]
}
