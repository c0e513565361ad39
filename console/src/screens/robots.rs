//! Fetches that robots.txt disallows, by path, bot and line.

use super::{Filters, Pager, TableFooter};
use crate::State;
use crate::failure::Failure;
use crate::labels;
use crate::layout::{Layout, Page};
use crate::numbers::{Count, Time};
use crate::query::Query;
use crate::session::Member;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use serde::Deserialize;
use std::sync::Arc;

const ROBOTS: &str = "/content-owners/robots";
const LIMIT: u64 = 50;

/// `GET /content-owners/robots`
#[derive(Deserialize)]
struct Compliance {
    robots: Vec<RobotsFile>,
    fetches: Fetches,
    items: Vec<Row>,
    total: u64,
}

#[derive(Deserialize)]
struct RobotsFile {
    host: String,
    state: String,
    checked_at: Option<Time>,
    changed_at: Option<Time>,
}

#[derive(Deserialize)]
struct Fetches {
    allowed: Count,
    disallowed: Count,
    unknown: Count,
    other_disallowed: Count,
}

#[derive(Deserialize)]
struct Row {
    host: String,
    path: String,
    bot: String,
    operator: String,
    purpose: String,
    fetches: Count,
    last_fetch: Time,
    rule: String,
    rule_line: u64,
}

impl RobotsFile {
    fn label(&self) -> &str {
        labels::robots_state(&self.state)
    }
}

impl Row {
    fn purpose(&self) -> &str {
        labels::purpose(&self.purpose)
    }
}

#[derive(Template)]
#[template(path = "robots.html")]
pub(crate) struct RobotsPage {
    frame: Layout,
    filters: Filters,
    home: String,
    files: Vec<RobotsFile>,
    fetches: Fetches,
    rows: Vec<Row>,
    pager: Pager,
    behind: TableFooter,
    behind_files: TableFooter,
}

/// `GET /console/o/{organization}/robots`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<Page<RobotsPage>, Failure> {
    let filters = Filters::read(&state, &member, "robots", &asked).await?;
    let (limit, offset) = (LIMIT.to_string(), asked.offset.to_string());
    let parameters = filters.window.parameters_and(&[("limit", &limit), ("offset", &offset)]);
    let read: Compliance = member.api().get(ROBOTS, &parameters).await?;
    let address = format!("{}?{}", filters.here, filters.window.query());
    Ok(Page(RobotsPage {
        frame: member.frame("robots.txt", &filters.window.query()),
        home: member.organization.home(),
        pager: Pager::numbered(address, read.total, asked.offset, LIMIT),
        behind: TableFooter::new(&state, &member, "robots", ROBOTS, &parameters),
        behind_files: TableFooter::new(&state, &member, "robots-files", ROBOTS, &filters.window.parameters()),
        files: read.robots,
        fetches: read.fetches,
        rows: read.items,
        filters,
    }))
}
