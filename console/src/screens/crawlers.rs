//! Crawlers: who fetched, for what, how it was answered, and how many came back. What servers saw, beside what agents claim.
//!
//! Must show what a server did not tell as not known, and never as a zero; and sums of every bot, not of those of one page.

use super::{Behind, Filters};
use crate::State;
use crate::answers::{Series, SeriesItem};
use crate::api::{Asker, Parameters};
use crate::chart::Chart;
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::numbers::{Bytes, Count, Ratio, Share};
use crate::query::Query;
use crate::session::Member;
use crate::sort::{Headings, Key};
use crate::window::{PeriodParameters, Window};
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// As many bots as one answer may have.
const LIMIT: &str = "1000";
const CRAWLERS: &str = "/content-owners/crawlers";
/// What the chart may be split by: in addresses and for the API, and in words.
const SPLITS: [(&str, &str); 3] = [("operator", "By operator"), ("purpose", "By purpose"), ("status", "By status")];

/// `GET /content-owners/crawlers`
#[derive(Deserialize)]
struct Answer {
    items: Vec<Crawler>,
    total: u64,
    unattributed_clicks: Count,
    /// Nothing where one domain is asked for: drains do not count by host.
    refused: Option<Vec<Refused>>,
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
    refused: Option<Count>,
    operator_clicks: Count,
    retrievals_per_click: Option<Ratio>,
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
}

impl Crawler {
    fn corroborated_share(&self) -> Share {
        Share::of(self.corroborated, self.retrievals)
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
            "refused" => Some(Key::known(self.refused.map(|refused| refused.0))),
            _ => None,
        }
    }
}

impl Refused {
    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "operator" => Some(Key::text(&self.operator)),
            "bot" => Some(Key::text(&self.bot)),
            "status" => Some(Key::number(self.status.into())),
            "requests" => Some(Key::number(self.count.0)),
            _ => None,
        }
    }
}

/// What several rows come to.
#[derive(Default)]
struct Sum {
    retrievals: Count,
    bytes: Bytes,
    corroborated: Count,
    clicks: Count,
}

impl Sum {
    fn add(&mut self, crawler: &Crawler) {
        self.retrievals.0 += crawler.retrievals.0;
        self.bytes.0 = self.bytes.0.saturating_add(crawler.bytes.0);
        self.corroborated.0 += crawler.corroborated.0;
    }

    fn corroborated_share(&self) -> Share {
        Share::of(self.corroborated, self.retrievals)
    }

    fn share_of(&self, total: &Self) -> Share {
        Share::of(self.retrievals, total.retrievals)
    }
}

/// All bots of one operator together.
#[derive(Default)]
struct Operator {
    name: String,
    sum: Sum,
    retrievals_per_click: Option<Ratio>,
}

impl Operator {
    fn key(&self, column: &str) -> Option<Key> {
        match column {
            "operator" => Some(Key::text(&self.name)),
            "retrievals" => Some(Key::number(self.sum.retrievals.0)),
            "bytes" => Some(Key::number(self.sum.bytes.0)),
            "corroborated" => Some(Key::share(self.sum.corroborated_share())),
            "clicks" => Some(Key::number(self.sum.clicks.0)),
            "per_click" if self.retrievals_per_click.is_none() => Some(Key::Unknown),
            // By what the ratio is of, so that no fraction is compared.
            "per_click" => Some(Key::share(Share::of(self.sum.retrievals, self.sum.clicks))),
            _ => None,
        }
    }
}

/// Most retrievals first, and what all of them come to.
fn by_operator(crawlers: &[Crawler]) -> (Vec<Operator>, Sum) {
    let (mut operators, mut total) = (BTreeMap::<&str, Operator>::new(), Sum::default());
    for crawler in crawlers {
        let operator = operators.entry(&crawler.operator).or_default();
        operator.name.clone_from(&crawler.operator);
        operator.sum.add(crawler);
        // The same in each row of the operator.
        operator.sum.clicks = crawler.operator_clicks;
        operator.retrievals_per_click = crawler.retrievals_per_click;
        total.add(crawler);
    }
    let mut operators: Vec<Operator> = operators.into_values().collect();
    operators.sort_by_key(|operator| Reverse(operator.sum.retrievals));
    total.clicks = Count(operators.iter().map(|operator| operator.sum.clicks.0).sum());
    (operators, total)
}

/// The bot that fetched the most, from whatever addresses.
struct Most {
    operator: String,
    bot: String,
    retrievals: Count,
}

impl Most {
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

/// What an operator says that it fetches for, in words.
fn purpose(name: &str) -> &str {
    match name {
        "training" => "to train models",
        "search" => "for a search index",
        "user" => "because a person asks",
        other => other,
    }
}

/// By what a server says of the requests; what none says anything of is no crawler's.
fn over_time(split: &str, mut items: Vec<SeriesItem>, is_hourly: bool) -> Chart {
    let name = |item: &SeriesItem| match split {
        "purpose" => purpose(&item.purpose).to_owned(),
        "status" if item.status == 0 => String::new(),
        "status" => item.status.to_string(),
        _ => item.operator.clone(),
    };
    items.retain(|item| !name(item).is_empty());
    Chart::of("Retrievals", &items, is_hourly, name)
}

#[derive(Template)]
#[template(path = "crawlers.html")]
pub(crate) struct Crawlers {
    frame: Frame,
    filters: Filters,
    headings: Headings,
    home: String,
    splits: [(&'static str, &'static str); 3],
    split: &'static str,
    chart: Chart,
    behind_chart: Behind,
    most: Option<Most>,
    operators: Vec<Operator>,
    total: Sum,
    crawlers: Vec<Crawler>,
    unattributed_clicks: Count,
    refused: Option<Vec<Refused>>,
    behind_refused: Behind,
    coverage: Coverage,
    behind_coverage: Behind,
    behind: Behind,
}

/// Every bot, however many pages they take; what stands beside them is of the first.
async fn read(api: &Asker, window: &Window) -> Result<Answer, Failure> {
    let mut all: Answer = api.get(CRAWLERS, &page_at(window, 0)).await?;
    while (all.items.len() as u64) < all.total {
        let page: Answer = api.get(CRAWLERS, &page_at(window, all.items.len())).await?;
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
    let over = filters.window.parameters_and(&[("by", filters.window.bucket()), ("split", split)]);
    let api = member.api();
    let (mut answer, series) =
        tokio::try_join!(read(&api, &filters.window), api.get::<Series>("/content-owners/series", &over),)?;
    let (mut operators, total) = by_operator(&answer.items);
    let headings = filters.headings(&asked, &[("split", split)], "-retrievals");
    headings.sort(&mut operators, Operator::key);
    headings.sort(&mut answer.items, Crawler::key);
    headings.sort(answer.refused.as_deref_mut().unwrap_or_default(), Refused::key);
    Ok(Page(Crawlers {
        headings,
        frame: member.frame("Crawlers", &filters.window.query()),
        home: member.organization.home(),
        splits: SPLITS,
        split,
        chart: over_time(split, series.items, filters.window.bucket() == "hour").until(state.clock.now()),
        behind_chart: Behind::of(&state, &member, "series", "/content-owners/series", &over),
        most: Most::of(&answer.items),
        operators,
        total,
        crawlers: answer.items,
        unattributed_clicks: answer.unattributed_clicks,
        refused: answer.refused,
        coverage: answer.coverage.until(state.clock.now()),
        behind_refused: Behind::of(&state, &member, "refused-bots", CRAWLERS, &filters.window.parameters()),
        behind_coverage: Behind::of(&state, &member, "coverage", "/content-owners/coverage", &filters.window.parameters()),
        behind: Behind::of(&state, &member, "crawlers", CRAWLERS, &page_at(&filters.window, 0)),
        filters,
    }))
}
