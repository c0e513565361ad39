//! Fetches that an agent claims and fetches that a server of another organization reports.

use super::Reads;
use super::order::Order;
use super::rows::FoundPage;
use super::scope::Outcome;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use crate::read_model::{CorroborationBy, CorroborationRow};
use service_kit::http::ApiError;

const CORROBORATION: &str = include_str!("../../sql/corroboration.sql");

impl Reads {
    /// Returns a page of corroboration, by default the newest days first, on each day those with the most fetches.
    pub(crate) async fn corroboration(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, order, outcome): (CorroborationBy, Option<Order>, Option<Outcome>),
        at: Paging,
    ) -> Result<FoundPage<CorroborationRow>, ApiError> {
        let scope = self.scope(seen, period).await?.narrowed(outcome);
        let statement = scope.bind(Statement::new(CORROBORATION)).with("by_agent", by == CorroborationBy::Agent);
        self.page(order.unwrap_or(Order::descending("day")).bind(statement), at).await
    }
}
