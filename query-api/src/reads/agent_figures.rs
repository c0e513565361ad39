//! An organization's own figures: what it reported, and what others did with its click tokens.
//!
//! They count the items of its list ([`super::agent_events`]), so the figures of a period add up to that list.

use super::Reads;
use super::agent_events::own_reports;
use crate::access::visibility::OwnReports;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct OwnFigure {
    /// `total`, `type`, `role`, `agent`, `clicks` or `click`.
    pub(crate) figure: String,
    /// 1 for the sum of the types or agents that are not listed.
    pub(crate) is_other: u8,
    /// Of a type or agent its name, of a role its number.
    pub(crate) name: String,
    pub(crate) events: u64,
    pub(crate) sessions: u64,
}

impl Reads {
    /// Returns the figures of a summary, in no order.
    pub(crate) async fn own_figures(&self, own: &OwnReports, period: &Period) -> Result<Vec<OwnFigure>, ApiError> {
        let statement = own_reports(include_str!("../../sql/agent_summary.sql"), own, period);
        self.all(self.most.in_summary(statement)).await
    }
}
