//! Pages by URL or section.

use super::Reads;
use super::rows::{FoundPage, page_row};
use super::scope::Scope;
use super::sort_order::SortOrder;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::Outcome;
use crate::parameters::page_filter::{PageFilter, PagePath, PagesBy};
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use crate::parameters::sort::Sortable;
use serde::Deserialize;
use service_kit::http::ApiError;

const URLS: &str = include_str!("../../sql/urls.sql");
const SECTIONS: &str = include_str!("../../sql/sections.sql");

/// Members of an item that the list can be sorted by. Event types sort by the number of events of that type.
pub(crate) const URLS_SORTABLE: &Sortable = &[
    ("content_url", "name"),
    ("total_events", "events"),
    ("unique_sessions", "unique_sessions"),
    ("last_seen", "last_ms"),
    ("content_retrieved", "retrieved"),
    ("content_grounded", "grounded"),
    ("content_cited", "cited"),
    ("content_presented", "presented"),
    ("content_engaged", "engaged"),
];

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct UrlRow {
    total: u64,
    is_item: u8,
    pub(crate) url: String,
    pub(crate) events: u64,
    pub(crate) unique_sessions: u64,
    pub(crate) types: Vec<String>,
    /// Number of events for each of `types`.
    pub(crate) per_type: Vec<u64>,
    /// Events of types that are not listed.
    pub(crate) other_types: u64,
    /// Time of the last event in milliseconds since 1970.
    pub(crate) last_ms: i64,
}

page_row! { UrlRow }

impl Reads {
    /// Returns a page of URLs or sections. By default, those with the most events come first, then by name.
    pub(crate) async fn urls(
        &self,
        seen: &Visibility,
        period: &Period,
        (pages, order, outcome): (&PageFilter, Option<SortOrder>, Option<Outcome>),
        at: Paging,
    ) -> Result<FoundPage<UrlRow>, ApiError> {
        let scope = Scope::new(seen, period).with_outcome(outcome);
        let statement = Statement::new(match pages.by {
            PagesBy::Url => URLS,
            PagesBy::Section => SECTIONS,
        });
        let (path, is_prefix) = match &pages.path {
            None => ("", false),
            Some(PagePath::Exact(path)) => (path.as_str(), false),
            Some(PagePath::Prefix(path)) => (path.as_str(), true),
        };
        let order = order.unwrap_or(SortOrder::descending("events"));
        let statement =
            order.bind(self.list_limits.by_page(scope.bind(statement))).with("path", path).with("is_prefix", is_prefix);
        self.page(statement, at).await
    }
}
