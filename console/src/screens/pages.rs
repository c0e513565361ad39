//! Pages: each URL or section with its number of events and its last use, optionally filtered by path.
//!
//! Rows keep the API's order: most events first, or by the chosen column.

use super::{FETCHES, Filters, LARGEST, Pager, TableFooter};
use crate::State;
use crate::api::Parameters;
use crate::failure::Failure;
use crate::layout::{Layout, Page};
use crate::numbers::Count;
use crate::query::Query;
use crate::responses::{List, UrlMetric};
use crate::session::Member;
use crate::sort::Headings;
use crate::window::PeriodParameters;
use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use schemas::problem::Problem;
use std::collections::HashMap;
use std::sync::Arc;

const URLS: &str = "/content-owners/urls";
const LIMIT: u64 = 50;
/// The grouping that isn't the default.
const SECTION: &str = "section";

#[derive(Template)]
#[template(path = "pages.html")]
pub(crate) struct Pages {
    frame: Layout,
    filters: Filters,
    headings: Headings,
    home: String,
    /// Addresses of the list by page and by section, with the same path.
    by_page: String,
    by_section: String,
    is_of_sections: bool,
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
    /// Returns the number of events of a type.
    pub(crate) fn of_type(&self, event_type: &str) -> Count {
        self.event_types.iter().find(|counted| counted.event_type == event_type).map_or(Count(0), |counted| counted.count)
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
    let fetches = filters.window.parameters_and(&[("by", &asked.by), FETCHES, LARGEST]);
    let (page, problem) = match read(&member, &parameters, &fetches).await {
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
            by_page: address("", ""),
            by_section: address(SECTION, ""),
            is_of_sections: asked.by == SECTION,
            pager: Pager::numbered(address(&asked.by, &asked.sort), page.total, asked.offset, LIMIT),
            pages: page.items,
            behind: TableFooter::new(&state, &member, "pages", URLS, &parameters),
            problem,
            filters,
        }),
    ))
}

/// Returns a page of URLs with their fetches. If the long list of fetches may omit a URL, its fetches are unknown.
async fn read(member: &Member, parameters: &Parameters, fetches: &Parameters) -> Result<List<UrlMetric>, Failure> {
    let api = member.api();
    let (mut page, fetched) =
        tokio::try_join!(api.get::<List<UrlMetric>>(URLS, parameters), api.get::<List<UrlMetric>>(URLS, fetches))?;
    let is_whole = fetched.items.len() as u64 >= fetched.total;
    let of: HashMap<String, Count> = fetched.items.into_iter().map(|url| (url.content_url, url.total_events)).collect();
    for url in &mut page.items {
        url.fetches = of.get(&url.content_url).copied().or(is_whole.then_some(Count(0)));
    }
    Ok(page)
}
