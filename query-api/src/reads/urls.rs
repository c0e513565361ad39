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
            ("fetched", "fetched"),
            ("failed", "failed"),
            ("revalidated", "revalidated"),
            ("engagements", "engagements"),
            ("visits", "visits"),
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
    pub(crate) fetched: u64,
    /// This count and the next: from events and log lines.
    pub(crate) failed: u64,
    pub(crate) revalidated: u64,
    pub(crate) grounded: u64,
    pub(crate) cited: u64,
    pub(crate) presented: u64,
    pub(crate) engagements: u64,
    pub(crate) visits: u64,
    /// Time of the last event or log line in milliseconds since 1970.
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
        let (host, name) = if by == PagesBy::Section { ("site", "section") } else { ("nothing", "page") };
        let (platform, agent, bot) = match by {
            PagesBy::Url | PagesBy::Section => ("nobody", "nothing", "nothing"),
            PagesBy::UrlAndAgent => ("agent_platform", "agent_name", "bot_name"),
        };
        let statement = Scope::new(seen, period).filtered(filter).bind(Statement::new(URLS));
        let statement = statement.with("of_host", host).with("of_name", name);
        let statement = statement.with("of_platform", platform).with("of_agent", agent).with("of_bot", bot);
        let order = order.unwrap_or(SortOrder::descending("events"));
        self.page(order.bind(self.list_limits.by_page(statement)), at).await
    }
}
