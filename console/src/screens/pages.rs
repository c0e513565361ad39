//! Pages: each URL or section with its number of events and its last use, optionally filtered by path.
//!
//! Rows keep the API's order: most events first, or by the chosen column.

use super::{Filters, Pager, TableFooter, bot_name};
use crate::State;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::query::Query;
use crate::responses::{List, UrlMetric};
use crate::session::Member;
use crate::sort::Headings;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use schemas::problem::Problem;
use std::sync::Arc;

const URLS: &str = "/content-owners/urls";
const LIMIT: u64 = 50;
/// The grouping that isn't the default.
const SECTION: &str = "section";
const WITH_AGENT: &str = "page,agent";

#[derive(Template)]
#[template(path = "pages.html")]
pub(crate) struct Pages {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    /// Addresses of the list by page and by section, with the same path.
    ways: [(&'static str, &'static str, String); 3],
    by: &'static str,
    pages: Vec<UrlMetric>,
    pager: Pager,
    behind: TableFooter,
    /// The API's error about the path.
    problem: Option<Problem>,
}

impl Pages {
    fn path(&self) -> &str {
        self.filters.window.filter("path")
    }

    fn all_pages(&self) -> String {
        self.filters.with("path", "")
    }
}

impl UrlMetric {
    /// Returns the agent's name or, without an agent, the bot's.
    fn agent_or_bot(&self) -> &str {
        if self.agent_id.is_empty() { bot_name(&self.bot) } else { &self.agent_id }
    }

    /// Returns whether the page was cited, but nobody followed a link to it.
    fn is_cited_only(&self) -> bool {
        self.cited.0 > 0 && self.visits.0 == 0
    }
}

/// `GET /console/o/{organization}/pages`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<(StatusCode, Page<Pages>), Failure> {
    let filters = Filters::read(&state, &member, "pages", &asked).await?;
    let (limit, offset) = (LIMIT.to_string(), asked.offset.to_string());
    let part = [("by", asked.by.as_str()), ("sort", &asked.sort), ("limit", &limit), ("offset", &offset)];
    let parameters = filters.window.parameters_and(&part);
    let (page, problem) = match member.api().get::<List<UrlMetric>>(URLS, &parameters).await {
        Ok(page) => (page, None),
        Err(failure) => (List { items: Vec::new(), total: 0 }, Some(failure.of_parameter("path")?)),
    };
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let query = |by: &str, sort: &str| filters.window.query_and(&[("by", by), ("sort", sort)]);
    let address = |by: &str, sort: &str| format!("{}?{}", filters.here, query(by, sort));
    Ok((
        status,
        Page(Pages {
            headings: filters.headings(&asked, &[("by", &asked.by)], "-total_events"),
            frame: member.frame("Pages", &filters.window.query()),
            home: member.organization.home(),
            ways: [("", "Pages"), (SECTION, "Sections"), (WITH_AGENT, "By agent or bot")]
                .map(|(by, label)| (by, label, address(by, ""))),
            by: [SECTION, WITH_AGENT].into_iter().find(|by| asked.by == *by).unwrap_or_default(),
            pager: Pager::numbered(address(&asked.by, &asked.sort), page.total, asked.offset, LIMIT),
            pages: page.items,
            behind: TableFooter::new(&state, &member, "pages", URLS, &parameters),
            problem,
            filters,
        }),
    ))
}
