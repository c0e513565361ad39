//! The steps from fetch to engagement.

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

const FUNNEL: &str = include_str!("../../sql/funnel.sql");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunnelBy {
    Agent,
    Url,
    /// UTC day.
    Day,
}

impl FunnelBy {
    /// Item members that the list can be sorted by.
    pub(crate) fn sortable(self) -> &'static Sortable {
        match self {
            Self::Agent => &[("agent_id", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
            Self::Url => &[("content_url", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
            Self::Day => &[("day", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
        }
    }
}

const STEPS: [(&str, &str); 5] = [
    ("retrieved", "retrieved"),
    ("grounded", "grounded"),
    ("cited", "cited"),
    ("presented", "presented"),
    ("engaged", "engaged"),
];

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct FunnelRow {
    total: u64,
    is_item: u8,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) name: String,
    pub(crate) retrieved: u64,
    pub(crate) grounded: u64,
    pub(crate) cited: u64,
    pub(crate) presented: u64,
    pub(crate) engaged: u64,
}

page_row! { FunnelRow }

impl Reads {
    /// Returns a page of a funnel. By default, days are sorted newest first, agents and URLs by their number of events.
    pub(crate) async fn funnel(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, order, filter): (FunnelBy, Option<SortOrder>, &EventFilter),
        at: Paging,
    ) -> Result<FoundPage<FunnelRow>, ApiError> {
        let scope = Scope::new(seen, period).filtered(filter);
        let (owner, name, usual) = match by {
            FunnelBy::Agent => ("agent_platform", "agent_name", "whole"),
            FunnelBy::Url => ("nobody", "url", "whole"),
            FunnelBy::Day => ("nobody", "day", "name"),
        };
        let statement = scope.bind(Statement::new(FUNNEL)).with("owner", owner).with("name", name).with("usual", usual);
        self.page(order.unwrap_or(SortOrder::descending(usual)).bind(statement), at).await
    }
}
