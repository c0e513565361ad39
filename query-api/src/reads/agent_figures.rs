//! An organization's own figures: its reports, and others' reports with its click tokens.
//!
//! They count the items of its list ([`super::agent_events`]), so they add up to its length.

use super::Reads;
use super::agent_events::own_reports;
use crate::access::visibility::OwnReports;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;

#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct OwnFigure {
    /// One of `total`, `type`, `role`, `agent`, `clicks` and `click`.
    pub(crate) figure: String,
    /// 1 for the sum of all unlisted types or agents.
    pub(crate) is_other: u8,
    /// A type's or agent's name, or a role's number.
    pub(crate) name: String,
    pub(crate) events: u64,
    pub(crate) sessions: u64,
}

impl Reads {
    /// Returns a summary's figures in any order.
    pub(crate) async fn own_figures(&self, own: &OwnReports, period: &Period) -> Result<Vec<OwnFigure>, ApiError> {
        let statement = own_reports(include_str!("../../sql/agent_summary.sql"), own, period);
        self.all(self.list_limits.in_summary(statement)).await
    }
}
