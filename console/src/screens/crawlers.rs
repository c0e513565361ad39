//! Crawlers: who fetched, for what, how it was answered, and how many came back. What servers saw, beside what agents claim.
//!
//! Must show what a server did not tell as not known, and never as a zero.

use super::{Behind, Filters, Pager};
use crate::State;
use crate::answers::{Series, SeriesItem};
use crate::chart::Chart;
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::frame::{Frame, Page};
use crate::numbers::{Bytes, Count, Ratio, Share};
use crate::query::Query;
use crate::session::Member;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::sync::Arc;

const LIMIT: u64 = 50;
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
    home: String,
    splits: [(&'static str, &'static str); 3],
    split: &'static str,
    chart: Chart,
    behind_chart: Behind,
    crawlers: Vec<Crawler>,
    unattributed_clicks: Count,
    refused: Option<Vec<Refused>>,
    coverage: Coverage,
    pager: Pager,
    behind: Behind,
}

/// `GET /console/o/{organization}/crawlers`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<Crawlers>, Failure> {
    let filters = Filters::read(&state, &member, "crawlers", &asked).await?;
    let (limit, offset) = (LIMIT.to_string(), asked.offset.to_string());
    let parameters = filters.window.parameters_and(&[("limit", &limit), ("offset", &offset)]);
    let split = SPLITS.iter().map(|(name, _)| *name).find(|name| *name == asked.split).unwrap_or("operator");
    let over = filters.window.parameters_and(&[("by", filters.window.bucket()), ("split", split)]);
    let api = member.api();
    let (answer, series) = tokio::try_join!(
        api.get::<Answer>("/content-owners/crawlers", &parameters),
        api.get::<Series>("/content-owners/series", &over),
    )?;
    let address = format!("{}?{}", filters.here, filters.window.query());
    Ok(Page(Crawlers {
        frame: member.frame("Crawlers", &filters.window.query()),
        home: member.organization.home(),
        splits: SPLITS,
        split,
        chart: over_time(split, series.items, filters.window.bucket() == "hour"),
        behind_chart: Behind::of(&state, &member, "series", "/content-owners/series", &over),
        crawlers: answer.items,
        unattributed_clicks: answer.unattributed_clicks,
        refused: answer.refused,
        coverage: answer.coverage.until(state.clock.now()),
        pager: Pager::numbered(address, answer.total, asked.offset, LIMIT),
        behind: Behind::of(&state, &member, "crawlers", "/content-owners/crawlers", &parameters),
        filters,
    }))
}
