//! An organization's own figures: what it reported, and what others did with its click tokens.
//!
//! They count the items of its list ([`super::agent_events`]), so the figures of a period add up to that list.

use super::Reads;
use super::agent_events::own_reports;
use super::caps::of_any_size;
use crate::access::visibility::OwnReports;
use crate::parameters::period::Period;
use crate::read_model::OwnFigure;
use serde::Deserialize;
use service_kit::http::ApiError;

#[derive(clickhouse::Row, Deserialize)]
struct StoredFigure {
    figure: String,
    name: String,
    events: u64,
    sessions: u64,
}

impl Reads {
    /// Returns the figures of a summary, in no order. There may be any number of agents.
    pub(crate) async fn own_figures(&self, own: &OwnReports, period: &Period) -> Result<Vec<OwnFigure>, ApiError> {
        let statement = own_reports(include_str!("../../sql/agent_summary.sql"), own, period);
        let figures: Vec<StoredFigure> = self.all_of(of_any_size(statement.query(&self.client))).await?;
        let figure = |StoredFigure { figure, name, events, sessions }| OwnFigure { figure, name, events, sessions };
        Ok(figures.into_iter().map(figure).collect())
    }
}
