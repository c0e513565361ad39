//! Assistants & crawlers: fetches that servers saw, by operator and bot, next to what agents claim, and visits.

use super::{FETCHES, Filters, Pager, TableFooter, UNKNOWN, agent_or_bot};
use crate::State;
use crate::api::{Parameters, SessionClient};
use crate::chart::{Chart, Sparkline};
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::numbers::{Change, Count, Ratio, Share, Time};
use crate::query::Query;
use crate::responses::{ALL_OTHERS, Series, SeriesItem};
use crate::session::Member;
use crate::sort::{Headings, Key};
use crate::window::{Comparison, PeriodParameters, Window};
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum page size of the API.
const LIMIT: &str = "1000";
/// Bots and agents per page. Reporters can invent many agents.
const ROWS: u64 = 50;
const CRAWLERS: &str = "/content-owners/crawlers";
const SERIES: &str = "/content-owners/series";
/// Splits of the chart: value in the address and the API, and label.
const SPLITS: [(&str, &str); 4] =
    [("operator", "By operator"), ("agent_or_bot", "By agent or bot"), ("purpose", "By purpose"), ("status", "By status")];

/// `GET /content-owners/crawlers`
#[derive(Deserialize)]
struct CrawlersResponse {
    items: Vec<Bot>,
    total: u64,
    operators: Vec<Operator>,
    agents: Vec<Agent>,
    unattributed: Operator,
    refused: Vec<Refused>,
    coverage: Coverage,
}

#[derive(Deserialize)]
struct Bot {
    operator: String,
    bot: String,
    purpose: String,
    verified: Option<bool>,
    retrievals: Count,
    corroborated: Count,
    last_fetch: Time,
}

#[derive(Deserialize)]
struct Agent {
    operator: String,
    platform_id: String,
    platform_name: String,
    agent_id: String,
    claimed: Count,
    confirmed: Count,
    cited: Count,
    clicks: Count,
    /// Sum of the agents that are not listed.
    #[serde(default)]
    other: bool,
}

#[derive(Deserialize)]
struct Refused {
    operator: String,
    bot: String,
    status: u16,
    count: Count,
    /// Sum of the bots that are not listed.
    #[serde(default)]
    other: bool,
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

/// Fetches of one operator's bots and what its agents report, or the total of all operators.
#[derive(Deserialize, Default)]
struct Operator {
    /// Empty for agents without an operator.
    #[serde(default)]
    operator: String,
    retrievals: Count,
    claimed: Count,
    confirmed: Count,
    cited: Count,
    clicks: Count,
    /// `None` without comparison.
    #[serde(skip)]
    change: Option<Change>,
    #[serde(skip)]
    sparkline: Option<Sparkline>,
}

impl Operator {
    fn add(&mut self, other: &Self) {
        self.retrievals.0 += other.retrievals.0;
        self.claimed.0 += other.claimed.0;
        self.confirmed.0 += other.confirmed.0;
        self.cited.0 += other.cited.0;
        self.clicks.0 += other.clicks.0;
    }

    fn per_click(&self) -> Option<Ratio> {
        (self.clicks.0 > 0 && self.retrievals.0 > 0).then(|| Ratio::new(self.retrievals, self.clicks))
    }

    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "operator" => Some(Key::text(&self.operator)),
            "retrievals" => Some(Key::number(self.retrievals.0)),
            "claimed" => Some(Key::number(self.claimed.0)),
            "confirmed" => Some(Key::number(self.confirmed.0)),
            "cited" => Some(Key::number(self.cited.0)),
            "clicks" => Some(Key::number(self.clicks.0)),
            "per_click" if self.per_click().is_none() => Some(Key::Unknown),
            // Sort by the inverse of the ratio, which avoids comparing fractions.
            "per_click" => Some(Key::share(Share::new(self.retrievals, self.clicks))),
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

/// A bot that servers saw, or an agent that reports.
struct Row {
    name: String,
    /// Organization of an agent; empty for bots.
    platform_id: String,
    platform_name: String,
    operator: String,
    is_agent: bool,
    is_other: bool,
    purpose: String,
    verified: Option<bool>,
    /// Fetches of a bot; agents have claims instead.
    fetches: Option<Count>,
    claims: Option<Count>,
    /// Claims that a server confirmed, and fetches that an agent claims.
    confirmed: Count,
    citations: Option<Count>,
    visits: Option<Count>,
    last_fetch: Option<Time>,
    change: Option<Change>,
}

impl Row {
    /// Returns the value of the filter by evidence, and its label.
    fn evidence(&self) -> (&'static str, &'static str) {
        match (self.is_agent, self.confirmed.0) {
            (_, 1..) => ("corroborated", "Confirmed claims"),
            (true, 0) => ("claimed", "Claimed only"),
            (false, 0) => ("observed", "Server only"),
        }
    }

    fn purpose_label(&self) -> &str {
        labels::purpose(&self.purpose)
    }

    /// Returns whether this is an agent's row without events of the evidence that it would link to.
    fn has_evidence(&self) -> bool {
        !self.is_agent || self.claims.is_some_and(|claims| claims.0 > 0)
    }

    fn key(&self, column: &str) -> Option<Key> {
        let known = |count: Option<Count>| Some(Key::known(count.map(|count| count.0)));
        match column {
            "name" => Some(Key::text(&self.name)),
            "of" => Some(Key::text(if self.is_agent { &self.platform_name } else { &self.operator })),
            "fetched" => known(self.fetches),
            "claims" => known(self.claims),
            "both" => Some(Key::number(self.confirmed.0)),
            "citations" => known(self.citations),
            "visits" => known(self.visits),
            "last" => Some(Key::known(self.last_fetch.map(|at| at.0.timestamp_millis().unsigned_abs()))),
            _ => None,
        }
    }
}

/// Returns bots and agents, those with the most fetches or claims first.
fn rows(now: &CrawlersResponse, before: Option<&CrawlersResponse>) -> Vec<Row> {
    let change = |now: Count, earlier: &dyn Fn(&CrawlersResponse) -> u64| {
        before.map(|before| Change { now: now.0, before: earlier(before) })
    };
    let bot = |bot: &Bot| Row {
        name: bot.bot.clone(),
        platform_id: String::new(),
        platform_name: String::new(),
        operator: bot.operator.clone(),
        is_agent: false,
        is_other: false,
        purpose: bot.purpose.clone(),
        verified: bot.verified,
        fetches: Some(bot.retrievals),
        claims: None,
        confirmed: bot.corroborated,
        citations: None,
        visits: None,
        last_fetch: Some(bot.last_fetch),
        change: change(bot.retrievals, &|before| {
            let is_same = |other: &&Bot| other.bot == bot.bot && other.operator == bot.operator && other.verified == bot.verified;
            before.items.iter().filter(is_same).map(|bot| bot.retrievals.0).sum()
        }),
    };
    let agent = |agent: &Agent| Row {
        name: agent.agent_id.clone(),
        platform_id: agent.platform_id.clone(),
        platform_name: agent.platform_name.clone(),
        operator: agent.operator.clone(),
        is_agent: true,
        is_other: agent.other,
        purpose: String::new(),
        verified: None,
        fetches: None,
        claims: Some(agent.claimed),
        confirmed: agent.confirmed,
        citations: Some(agent.cited),
        visits: Some(agent.clicks),
        last_fetch: None,
        change: change(agent.claimed, &|before| {
            let is_same = |other: &&Agent| {
                other.agent_id == agent.agent_id && other.platform_id == agent.platform_id && other.other == agent.other
            };
            before.agents.iter().filter(is_same).map(|agent| agent.claimed.0).sum()
        }),
    };
    let mut rows: Vec<Row> = now.items.iter().map(bot).chain(now.agents.iter().map(agent)).collect();
    rows.sort_by_key(|row| (row.is_other, Reverse(row.fetches.or(row.claims))));
    rows
}

/// The bot with the most fetches, from all addresses.
struct TopBot {
    operator: String,
    bot: String,
    retrievals: Count,
}

impl TopBot {
    fn new(items: &[Bot]) -> Option<Self> {
        let mut bots = BTreeMap::<(&str, &str), u64>::new();
        for bot in items {
            *bots.entry((&bot.operator, &bot.bot)).or_default() += bot.retrievals.0;
        }
        let most = bots.into_iter().min_by_key(|(_, retrievals)| Reverse(*retrievals));
        most.map(|((operator, bot), retrievals)| Self {
            operator: operator.to_owned(),
            bot: bot.to_owned(),
            retrievals: Count(retrievals),
        })
    }
}

/// Returns the chart of fetches. Every split has the same sum, with a line for fetches whose value is unknown.
fn over_time(split: &str, series: &Series, is_hourly: bool) -> Chart {
    let name = |item: &SeriesItem| {
        match (split, item.purpose.as_str(), item.status, item.operator.as_str()) {
            _ if item.other => ALL_OTHERS,
            ("agent_or_bot", ..) => return agent_or_bot(item),
            ("purpose", "", ..) | ("status", _, 0, _) | ("operator", .., "") => UNKNOWN,
            ("status", _, status, _) => return status.to_string(),
            ("purpose", of_item, ..) => labels::purpose(of_item),
            (.., operator) => operator,
        }
        .to_owned()
    };
    Chart::new("Fetches", &series.items, is_hourly, |item| name(item)).with_gaps(series.coverage.as_ref())
}

/// Returns the fetches of an operator over time, with the buckets of a chart.
fn sparkline(operator: &str, series: &Series, buckets: &Chart) -> Sparkline {
    let items: Vec<SeriesItem> = series
        .items
        .iter()
        .map(|item| SeriesItem {
            start: item.start,
            total_events: if item.operator == operator && !item.other { item.total_events } else { 0 },
            ..SeriesItem::default()
        })
        .collect();
    let mut chart = Chart::new("", &items, buckets.bucket.is_hour(), |_| String::new()).with_gaps(series.coverage.as_ref());
    chart.is_open = buckets.is_open;
    chart.lines.iter_mut().for_each(|line| line.figures.truncate(buckets.starts.len()));
    Sparkline::new(&chart, 0)
}

#[derive(Template)]
#[template(path = "assistants.html")]
pub(crate) struct Assistants {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    splits: [(&'static str, &'static str); 4],
    split: &'static str,
    chart: Chart,
    behind_chart: TableFooter,
    most: Option<TopBot>,
    operators: Vec<Operator>,
    /// Fetches without a known bot, and claims and visits of agents without a known operator.
    unknown: Operator,
    /// The total of known operators, which ratios are about.
    known: Operator,
    total: Operator,
    rows: Vec<Row>,
    pager: Pager,
    /// The period that changes are relative to; `None` without comparison.
    compared: Option<String>,
    refused: Vec<Refused>,
    behind_operators: TableFooter,
    behind_bots: TableFooter,
    behind_agents: TableFooter,
    behind_refused: TableFooter,
    coverage: Coverage,
    behind_coverage: TableFooter,
}

impl Assistants {
    fn has_unknown(&self) -> bool {
        let Operator { retrievals, claimed, confirmed, cited, clicks, .. } = &self.unknown;
        [retrievals, claimed, confirmed, cited, clicks].iter().any(|count| count.0 > 0)
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.refused.is_empty() && !self.has_unknown()
    }

    /// Returns the address of the page for a row alone; `None` for sums.
    fn of_row(&self, row: &Row) -> Option<String> {
        match (row.is_agent, row.is_other || row.name.is_empty()) {
            (_, true) => None,
            (true, _) => Some(self.filters.with_agent(&row.name, &row.platform_id)),
            (false, _) => Some(self.filters.with("bot", &row.name)),
        }
    }
}

/// Reads all pages of bots. The other members are those of the first page.
async fn read(api: &SessionClient, period: &Parameters) -> Result<CrawlersResponse, Failure> {
    let mut all: CrawlersResponse = api.get(CRAWLERS, &page_at(period, 0)).await?;
    while (all.items.len() as u64) < all.total {
        let page: CrawlersResponse = api.get(CRAWLERS, &page_at(period, all.items.len())).await?;
        if page.items.is_empty() {
            break;
        }
        all.items.extend(page.items);
    }
    Ok(all)
}

fn page_at(period: &Parameters, offset: usize) -> Parameters {
    let page = [("limit", LIMIT.to_owned()), ("offset", offset.to_string())];
    period.iter().cloned().chain(page).collect()
}

/// The responses of a page.
struct Figures {
    now: CrawlersResponse,
    before: Option<CrawlersResponse>,
    /// Fetches by the split of the chart.
    series: Series,
    by_operator: Option<Series>,
}

impl Figures {
    async fn read(api: &SessionClient, window: &Window, before: Option<&Parameters>, split: &str) -> Result<Self, Failure> {
        let series = |split| window.parameters_and(&[("by", window.bucket()), ("split", split), FETCHES]);
        let (shown, by_operator, now) = (series(split), series("operator"), window.parameters());
        let (now, before, series, by_operator) = tokio::try_join!(
            read(api, &now),
            async {
                match before {
                    Some(before) => read(api, before).await.map(Some),
                    None => Ok(None),
                }
            },
            api.get::<Series>(SERIES, &shown),
            // The series by operator is requested anyway.
            async { if split == "operator" { Ok(None) } else { api.get::<Series>(SERIES, &by_operator).await.map(Some) } },
        )?;
        Ok(Self { now, before, series, by_operator })
    }

    /// Returns the operators with their changes and sparklines.
    fn operators(&mut self, buckets: &Chart) -> Vec<Operator> {
        let series = self.by_operator.as_ref().unwrap_or(&self.series);
        let mut operators = std::mem::take(&mut self.now.operators);
        for of in &mut operators {
            of.change = self.before.as_ref().map(|before| Change {
                now: of.retrievals.0,
                before: before
                    .operators
                    .iter()
                    .filter(|other| other.operator == of.operator)
                    .map(|other| other.retrievals.0)
                    .sum(),
            });
            of.sparkline = Some(sparkline(&of.operator, series, buckets));
        }
        operators
    }
}

/// `GET /console/o/{organization}/assistants`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Assistants>, Failure> {
    let filters = Filters::read(&state, &member, "assistants", &asked).await?;
    let (window, at) = (&filters.window, state.clock.now());
    let split = SPLITS.iter().map(|(name, _)| *name).find(|name| *name == asked.split).unwrap_or("operator");
    let (parameters, comparison) = (window.parameters(), window.comparison(at));
    let before = comparison.as_ref().map(Comparison::parameters);
    let mut figures = Figures::read(&member.api(), window, before.as_ref(), split).await?;
    let over = window.parameters_and(&[("by", window.bucket()), ("split", split), FETCHES]);
    let chart = over_time(split, &figures.series, window.bucket() == "hour").until(at);
    let (mut rows, mut operators) = (rows(&figures.now, figures.before.as_ref()), figures.operators(&chart));
    let CrawlersResponse { items, unattributed: unknown, mut refused, coverage, .. } = figures.now;
    let known = all(&operators);
    let total = all([&known, &unknown]);
    let headings = filters.headings(&asked, &[("split", split)], "-retrievals");
    headings.sort(&mut operators, Operator::key);
    headings.sort(&mut rows, Row::key);
    headings.sort(&mut refused, Refused::key);
    let address = format!("{}?{}", filters.here, window.query_and(&[("split", split), ("sort", &asked.sort)]));
    let footer = |list, path, parameters: &Parameters| TableFooter::new(&state, &member, list, path, parameters);
    let hours = window.unfiltered().parameters();
    Ok(Page(Assistants {
        headings,
        frame: member.frame("Assistants & crawlers", &window.query()),
        home: member.organization.home(),
        splits: SPLITS,
        split,
        chart: chart.linked(|line| filters.with_line(split, line)),
        behind_chart: footer("series", SERIES, &over),
        most: TopBot::new(&items),
        operators,
        total,
        pager: Pager::of_all(address, &mut rows, asked.offset, ROWS),
        rows,
        unknown,
        known,
        compared: comparison.as_ref().map(Comparison::label),
        refused,
        coverage: coverage.until(at),
        behind_operators: footer("operators", CRAWLERS, &parameters),
        behind_bots: footer("crawlers", CRAWLERS, &page_at(&parameters, 0)),
        behind_agents: footer("agents", CRAWLERS, &parameters),
        behind_refused: footer("refused-bots", CRAWLERS, &parameters),
        behind_coverage: footer("coverage", super::overview::COVERAGE, &hours),
        filters,
    }))
}
