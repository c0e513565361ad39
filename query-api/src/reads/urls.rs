//! Pages by URL or section.

use super::Reads;
use super::rows::{FoundPage, page_row};
use super::scope::Scope;
use super::sort_order::SortOrder;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use crate::parameters::sort::Sortable;
use serde::Deserialize;
use service_kit::http::ApiError;
use uuid::Uuid;

const URLS: &str = include_str!("../../sql/urls.sql");
const SECTIONS: &str = include_str!("../../sql/sections.sql");

/// What a row of the list represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PagesBy {
    Url,
    /// A host and the first segment of a path.
    Section,
    /// A URL and an agent, or a bot for events without an agent.
    UrlAndAgent,
}

impl PagesBy {
    /// Item members that the list can be sorted by. Event types sort by the number of their events.
    pub(crate) fn sortable(self) -> &'static Sortable {
        const BY_AGENT: &Sortable = &[
            ("agent_id", "one_agent"),
            ("bot", "one_bot"),
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
        if self == Self::UrlAndAgent { BY_AGENT } else { &BY_AGENT[2..] }
    }
}

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct UrlRow {
    total: u64,
    is_item: u8,
    pub(crate) url: String,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) agent: String,
    pub(crate) bot: String,
    pub(crate) events: u64,
    pub(crate) unique_sessions: u64,
    pub(crate) types: Vec<String>,
    /// Number of events for each of `types`.
    pub(crate) per_type: Vec<u64>,
    /// Events of unlisted types.
    pub(crate) other_types: u64,
    /// Time of the last event in milliseconds since 1970.
    pub(crate) last_ms: i64,
}

page_row! { UrlRow }

impl Reads {
    /// Returns a page of URLs or sections. By default, sorted by number of events, then by name.
    pub(crate) async fn urls(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, order, filter): (PagesBy, Option<SortOrder>, &EventFilter),
        at: Paging,
    ) -> Result<FoundPage<UrlRow>, ApiError> {
        let (sql, agent) = match by {
            PagesBy::Url => (URLS, ["nobody", "nothing", "nothing"]),
            PagesBy::Section => (SECTIONS, [""; 3]),
            PagesBy::UrlAndAgent => (URLS, ["agent_platform", "agent_name", "bot_name"]),
        };
        let statement = Scope::new(seen, period).filtered(filter).bind(Statement::new(sql));
        let statement = statement.with("of_platform", agent[0]).with("of_agent", agent[1]).with("of_bot", agent[2]);
        let order = order.unwrap_or(SortOrder::descending("events"));
        self.page(order.bind(self.list_limits.by_page(statement)), at).await
    }
}
