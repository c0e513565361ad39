//! Pages: each URL or section with the number of its events and the last use, optionally filtered by path.
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
/// The grouping that is not the default.
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
    /// Returns the address of a section's pages, or `None` if the section is not a folder.
    fn within(&self, page: &UrlMetric) -> Option<String> {
        let (host, path) = page.folder().filter(|_| self.is_of_sections)?;
        let there = self.filters.window.on_domain(host);
        Some(format!("{}?{}", self.filters.here, there.query_and(&[("path", path)])))
    }
}

impl UrlMetric {
    /// Returns the number of events of a type.
    pub(crate) fn of_type(&self, event_type: &str) -> Count {
        self.event_types.iter().find(|counted| counted.event_type == event_type).map_or(Count(0), |counted| counted.count)
    }

    /// Returns a section's host and path prefix for the API. Returns `None` for paths with an asterisk, which the API can't filter by.
    fn folder(&self) -> Option<(&str, &str)> {
        let (_, beyond) = self.content_url.split_once("://")?;
        let (host, path) = beyond.split_at(beyond.find('/')?);
        let is_asked_for = path.strip_suffix("/*").is_some_and(|folder| !folder.contains('*'));
        is_asked_for.then_some((host, path))
    }
}

/// `GET /console/o/{organization}/pages`
pub(crate) async fn show(
    Shared(state): Shared<Arc<State>>,
    member: Member,
    Query(asked): Query<PeriodParameters>,
) -> Result<(StatusCode, Page<Pages>), Failure> {
    let filters = Filters::read(&state, &member, "pages", &asked).await?.on_path(&asked);
    let (limit, offset) = (LIMIT.to_string(), asked.offset.to_string());
    let part = [("sort", asked.sort.as_str()), ("limit", &limit), ("offset", &offset)];
    let parameters = filters.window.parameters_and(&[&asked.of_pages()[..], &part].concat());
    let fetches = filters.window.parameters_and(&[&asked.of_pages()[..], &[FETCHES, LARGEST]].concat());
    let (page, problem) = match read(&member, &parameters, &fetches).await {
        Ok(page) => (page, None),
        Err(failure) => (List { items: Vec::new(), total: 0 }, Some(failure.of_parameter("path")?)),
    };
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let query = |by: &str, sort: &str| filters.window.query_and(&[("by", by), ("path", &asked.path), ("sort", sort)]);
    let address = |by: &str, sort: &str| format!("{}?{}", filters.here, query(by, sort));
    Ok((
        status,
        Page(Pages {
            headings: filters.headings(&asked, &asked.of_pages(), "-total_events"),
            frame: member.frame("Pages", &filters.window.query()),
            home: member.organization.home(),
            by_page: address("", ""),
            by_section: address(SECTION, ""),
            is_of_sections: asked.by == SECTION,
            pager: Pager::numbered(address(&asked.by, &asked.sort), page.total, asked.offset, LIMIT),
            pages: page.items,
            behind: TableFooter::of(&state, &member, "pages", URLS, &parameters),
            problem,
            filters,
        }),
    ))
}

/// Returns a page of URLs with their fetches. A URL that the long list of fetches may omit has unknown fetches.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn folder_is_its_host_and_path_prefix() {
        let folder = |url: &str| {
            let page = json!({"content_url": url, "total_events": 1, "unique_sessions": 0, "event_types": [], "last_seen": "2026-01-01T00:00:00Z"});
            serde_json::from_value::<UrlMetric>(page).unwrap().folder().map(|(host, path)| format!("{host} {path}"))
        };
        assert_eq!(folder("https://example.com/blog/*"), Some("example.com /blog/*".to_owned()));
        assert_eq!(folder("https://example.com/b%2Fc/*"), Some("example.com /b%2Fc/*".to_owned()));
        assert_eq!((folder("https://example.com/a*b/*"), folder("https://example.com/*/*")), (None, None));
        assert_eq!(
            (folder("https://example.com/"), folder("https://example.com/blog/a"), folder("nothing/*")),
            (None, None, None)
        );
    }
}
