//! Fetches claimed by agents, and fetches reported by other organizations' servers.

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

const CORROBORATION: &str = include_str!("../../sql/corroboration.sql");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CorroborationBy {
    /// A UTC day and an agent.
    Agent,
    /// A UTC day.
    Day,
}

impl CorroborationBy {
    /// Item members that the list can be sorted by.
    pub(crate) fn sortable(self) -> &'static Sortable {
        const BY_AGENT: &Sortable = &[
            ("agent_id", "agent"),
            ("day", "day"),
            ("retrievals", "retrievals"),
            ("seen_by_both", "both"),
            ("claimed_by_agent_only", "claimed_only"),
            ("seen_by_server_only", "seen_only"),
            ("seen_by_neither", "neither"),
        ];
        match self {
            Self::Agent => BY_AGENT,
            Self::Day => &BY_AGENT[1..],
        }
    }
}

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct CorroborationRow {
    total: u64,
    is_item: u8,
    pub(crate) day: String,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) agent: String,
    pub(crate) retrievals: u64,
    pub(crate) both: u64,
    pub(crate) claimed_only: u64,
    pub(crate) seen_only: u64,
    pub(crate) neither: u64,
}

page_row! { CorroborationRow }

impl Reads {
    /// Returns a page of corroboration. By default, the newest days come first, then the agents with the most fetches.
    pub(crate) async fn corroboration(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, order, filter): (CorroborationBy, Option<SortOrder>, &EventFilter),
        at: Paging,
    ) -> Result<FoundPage<CorroborationRow>, ApiError> {
        let scope = Scope::new(seen, period).filtered(filter);
        let statement = scope.bind(Statement::new(CORROBORATION)).with("by_agent", by == CorroborationBy::Agent);
        self.page(order.unwrap_or(SortOrder::descending("day")).bind(statement), at).await
    }
}
