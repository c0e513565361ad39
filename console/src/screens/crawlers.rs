//! Crawlers: fetches by operator and purpose, their responses, and click-throughs. Compares server data with agents' claims.

use super::{FETCHES, Filters, TableFooter, UNKNOWN};
use crate::State;
use crate::api::{Parameters, SessionClient};
use crate::chart::Chart;
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::{Bytes, Count, Ratio, Share};
use crate::query::Query;
use crate::responses::{ALL_OTHERS, Series, SeriesItem};
use crate::session::Member;
use crate::sort::{Headings, Key};
use crate::window::{PeriodParameters, Window};
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum page size of the API.
const LIMIT: &str = "1000";
const CRAWLERS: &str = "/content-owners/crawlers";
/// Splits of the chart: value in the address and the API, and label.
const SPLITS: [(&str, &str); 3] = [("operator", "By operator"), ("purpose", "By purpose"), ("status", "By status")];

/// `GET /content-owners/crawlers`
#[derive(Deserialize)]
struct CrawlersResponse {
    items: Vec<Crawler>,
    total: u64,
    operators: Vec<Operator>,
    unattributed: Operator,
    refused: Vec<Refused>,
    coverage: Coverage,
}

#[derive(Deserialize)]
struct Crawler {
    operator: String,
    bot: String,
    purpose: String,
    verified: Option<bool>,
    retrievals: Count,
    bytes: Bytes,
    statuses: Vec<Status>,
    corroborated: Count,
    refused: Count,
}

#[derive(Deserialize)]
struct Status {
    status: u16,
    count: Count,
}

#[derive(Deserialize)]
struct Refused {
    operator: String,
    bot: String,
    status: u16,
    count: Count,
    /// Sum of unlisted bots.
    #[serde(default)]
    other: bool,
}

impl Crawler {
    fn corroborated_share(&self) -> Share {
        Share::new(self.corroborated, self.retrievals)
    }

    fn purpose_told(&self) -> &str {
        purpose(&self.purpose)
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "bot" => Some(Key::text(&self.bot)),
            "operator" => Some(Key::text(&self.operator)),
            "purpose" => Some(Key::text(self.purpose_told())),
            "verified" => Some(Key::known(self.verified.map(u64::from))),
            "retrievals" => Some(Key::number(self.retrievals.0)),
            "bytes" => Some(Key::number(self.bytes.0)),
            "corroborated" => Some(Key::share(self.corroborated_share())),
            "refused" => Some(Key::number(self.refused.0)),
            _ => None,
        }
    }
}

impl Refused {
    /// Returns the measure that counts the requests.
    fn outcome(&self) -> &'static str {
        if self.status == 304 { "Revalidations" } else { "Failed fetches" }
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "operator" => Some(Key::text(&self.operator)),
            "bot" => Some(Key::text(&self.bot)),
            "outcome" => Some(Key::text(self.outcome())),
            "status" => Some(Key::number(self.status.into())),
            "requests" => Some(Key::number(self.count.0)),
            _ => None,
        }
    }
}

/// Fetches by one operator's bots and the reports of its agents, or the total of all operators.
#[derive(Deserialize, Default)]
struct Operator {
    /// Empty for agents without an operator.
    #[serde(default)]
    operator: String,
    #[serde(default)]
    retrievals: Count,
    claimed: Count,
    cited: Count,
    presented: Count,
    clicks: Count,
    #[serde(skip)]
    bytes: Bytes,
    #[serde(skip)]
    corroborated: Count,
}

impl Operator {
    /// Adds its bots' sums.
    fn with(mut self, crawlers: &[Crawler]) -> Self {
        for crawler in crawlers.iter().filter(|crawler| crawler.operator == self.operator) {
            self.bytes.0 = self.bytes.0.saturating_add(crawler.bytes.0);
            self.corroborated.0 += crawler.corroborated.0;
        }
        self
    }

    fn add(&mut self, other: &Self) {
        self.retrievals.0 += other.retrievals.0;
        self.claimed.0 += other.claimed.0;
        self.cited.0 += other.cited.0;
        self.presented.0 += other.presented.0;
        self.clicks.0 += other.clicks.0;
        self.bytes.0 = self.bytes.0.saturating_add(other.bytes.0);
        self.corroborated.0 += other.corroborated.0;
    }

    fn corroborated_share(&self) -> Share {
        Share::new(self.corroborated, self.retrievals)
    }

    fn per_click(&self) -> Option<Ratio> {
        (self.clicks.0 > 0 && self.retrievals.0 > 0).then(|| Ratio::new(self.retrievals, self.clicks))
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "operator" => Some(Key::text(&self.operator)),
            "retrievals" => Some(Key::number(self.retrievals.0)),
            "claimed" => Some(Key::number(self.claimed.0)),
            "cited" => Some(Key::number(self.cited.0)),
            "presented" => Some(Key::number(self.presented.0)),
            "clicks" => Some(Key::number(self.clicks.0)),
            "per_click" if self.per_click().is_none() => Some(Key::Unknown),
            // Sort by the inverse ratio, which avoids comparing fractions.
            "per_click" => Some(Key::share(Share::new(self.retrievals, self.clicks))),
            "bytes" => Some(Key::number(self.bytes.0)),
            "corroborated" => Some(Key::share(self.corroborated_share())),
            _ => None,
        }
    }
}

/// Returns the total of these operators.
fn all<'a>(operators: impl IntoIterator<Item = &'a Operator>) -> Operator {
    let mut all = Operator::default();
    operators.into_iter().for_each(|operator| all.add(operator));
    all
}

/// The bot with the most fetches, from all addresses.
struct TopBot {
    operator: String,
    bot: String,
    retrievals: Count,
}

impl TopBot {
    fn of(crawlers: &[Crawler]) -> Option<Self> {
        let mut bots = BTreeMap::<(&str, &str), u64>::new();
        for crawler in crawlers {
            *bots.entry((&crawler.operator, &crawler.bot)).or_default() += crawler.retrievals.0;
        }
        let most = bots.into_iter().min_by_key(|(_, retrievals)| Reverse(*retrievals));
        most.map(|((operator, bot), retrievals)| Self {
            operator: operator.to_owned(),
            bot: bot.to_owned(),
            retrievals: Count(retrievals),
        })
    }
}

/// Returns the label of an operator's purpose.
fn purpose(name: &str) -> &str {
    match name {
        "training" => "Training",
        "search" => "Search index",
        "user" => "User request",
        other => other,
    }
}

/// Returns the chart of fetches. Every split has the same sum, with a line for fetches whose value is unknown.
fn over_time(split: &str, series: &Series, is_hourly: bool) -> Chart {
    let name = |item: &SeriesItem| {
        match (split, item.purpose.as_str(), item.status, item.operator.as_str()) {
            _ if item.other => ALL_OTHERS,
            ("purpose", "", ..) | ("status", _, 0, _) | ("operator", .., "") => UNKNOWN,
            ("status", _, status, _) => return status.to_string(),
            ("purpose", of_item, ..) => purpose(of_item),
            (.., operator) => operator,
        }
        .to_owned()
    };
    Chart::new("Fetches", &series.items, is_hourly, |item| name(item)).with_gaps(series.coverage.as_ref())
}

#[derive(Template)]
#[template(path = "crawlers.html")]
pub(crate) struct Crawlers {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    splits: [(&'static str, &'static str); 3],
    split: &'static str,
    chart: Chart,
    behind_chart: TableFooter,
    most: Option<TopBot>,
    operators: Vec<Operator>,
    /// Fetches without a known bot, and claims and visits by agents without a known operator.
    unknown: Operator,
    /// The total of known operators, which ratios are based on.
    known: Operator,
    total: Operator,
    crawlers: Vec<Crawler>,
    refused: Vec<Refused>,
    behind_operators: TableFooter,
    behind_refused: TableFooter,
    coverage: Coverage,
    behind_coverage: TableFooter,
    behind: TableFooter,
}

impl Crawlers {
    fn has_unknown(&self) -> bool {
        let Operator { retrievals, claimed, cited, presented, clicks, .. } = &self.unknown;
        [retrievals, claimed, cited, presented, clicks].iter().any(|count| count.0 > 0)
    }
}

/// Reads all pages of bots. The other members come from the first page.
async fn read(api: &SessionClient, window: &Window) -> Result<CrawlersResponse, Failure> {
    let mut all: CrawlersResponse = api.get(CRAWLERS, &page_at(window, 0)).await?;
    while (all.items.len() as u64) < all.total {
        let page: CrawlersResponse = api.get(CRAWLERS, &page_at(window, all.items.len())).await?;
        if page.items.is_empty() {
            break;
        }
        all.items.extend(page.items);
    }
    Ok(all)
}

fn page_at(window: &Window, offset: usize) -> Parameters {
    window.parameters_and(&[("limit", LIMIT), ("offset", &offset.to_string())])
}

/// `GET /console/o/{organization}/crawlers`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Crawlers>, Failure> {
    let filters = Filters::read(&state, &member, "crawlers", &asked).await?;
    let split = SPLITS.iter().map(|(name, _)| *name).find(|name| *name == asked.split).unwrap_or("operator");
    let over = filters.window.parameters_and(&[("by", filters.window.bucket()), ("split", split), FETCHES]);
    let api = member.api();
    let (mut answer, series) =
        tokio::try_join!(read(&api, &filters.window), api.get::<Series>("/content-owners/series", &over),)?;
    let mut operators: Vec<_> = answer.operators.into_iter().map(|operator| operator.with(&answer.items)).collect();
    let known = all(&operators);
    let fetches: u64 = series.items.iter().map(|item| item.total_events).sum();
    let unknown = Operator { retrievals: Count(fetches.saturating_sub(known.retrievals.0)), ..answer.unattributed };
    let total = all([&known, &unknown]);
    let headings = filters.headings(&asked, &[("split", split)], "-retrievals");
    headings.sort(&mut operators, Operator::key);
    headings.sort(&mut answer.items, Crawler::key);
    headings.sort(&mut answer.refused, Refused::key);
    Ok(Page(Crawlers {
        headings,
        frame: member.frame("Crawlers", &filters.window.query()),
        home: member.organization.home(),
        splits: SPLITS,
        split,
        chart: over_time(split, &series, filters.window.bucket() == "hour")
            .until(state.clock.now())
            .linked(|line| filters.with_line(split, line)),
        behind_chart: TableFooter::new(&state, &member, "series", "/content-owners/series", &over),
        most: TopBot::of(&answer.items),
        operators,
        total,
        crawlers: answer.items,
        unknown,
        known,
        refused: answer.refused,
        coverage: answer.coverage.until(state.clock.now()),
        behind_operators: TableFooter::new(&state, &member, "operators", CRAWLERS, &filters.window.parameters()),
        behind_refused: TableFooter::new(&state, &member, "refused-bots", CRAWLERS, &filters.window.parameters()),
        behind_coverage: TableFooter::new(
            &state,
            &member,
            "coverage",
            super::overview::COVERAGE,
            &filters.window.unfiltered().parameters(),
        ),
        behind: TableFooter::new(&state, &member, "crawlers", CRAWLERS, &page_at(&filters.window, 0)),
        filters,
    }))
}
