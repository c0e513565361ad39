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
            Self::Agent => &BY_AGENT,
            Self::Url => &BY_URL,
            Self::Day => &BY_DAY,
        }
    }
}

const STEPS: [&str; 10] =
    ["retrieved", "fetched", "failed", "revalidated", "grounded", "cited", "presented", "engaged", "engagements", "visits"];
const BY_AGENT: [(&str, &str); 12] = sortable(&[("agent_id", "name"), ("bot", "one_bot")]);
const BY_URL: [(&str, &str); 11] = sortable(&[("content_url", "name")]);
const BY_DAY: [(&str, &str); 11] = sortable(&[("day", "name")]);

/// Returns the columns for the names, followed by the steps.
const fn sortable<const N: usize>(names: &[(&'static str, &'static str)]) -> [(&'static str, &'static str); N] {
    let (mut all, mut at) = ([("", ""); N], 0);
    while at < N {
        all[at] = if at < names.len() { names[at] } else { (STEPS[at - names.len()], STEPS[at - names.len()]) };
        at += 1;
    }
    all
}

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct FunnelRow {
    total: u64,
    is_item: u8,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) name: String,
    pub(crate) bot: String,
    pub(crate) retrieved: u64,
    pub(crate) fetched: u64,
    /// This count and the next: from events and log lines.
    pub(crate) failed: u64,
    pub(crate) revalidated: u64,
    pub(crate) grounded: u64,
    pub(crate) cited: u64,
    pub(crate) presented: u64,
    pub(crate) engaged: u64,
    pub(crate) engagements: u64,
    pub(crate) visits: u64,
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
        let (owner, name, bot, usual) = match by {
            FunnelBy::Agent => ("agent_platform", "agent_name", "bot_name", "whole"),
            FunnelBy::Url => ("nobody", "page", "nothing", "whole"),
            FunnelBy::Day => ("nobody", "day", "nothing", "name"),
        };
        let statement = scope.bind(Statement::new(FUNNEL)).with("owner", owner).with("name", name).with("usual", usual);
        let statement = statement.with("of_bot", bot).with("by_url", by == FunnelBy::Url);
        self.page(order.unwrap_or(SortOrder::descending(usual)).bind(statement), at).await
    }
}
