//! What becomes of content, from fetch to engagement.

use super::Reads;
use super::order::Order;
use super::rows::FoundPage;
use super::scope::Outcome;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use crate::read_model::{FunnelBy, FunnelRow};
use service_kit::http::ApiError;

const FUNNEL: &str = include_str!("../../sql/funnel.sql");

impl Reads {
    /// Returns a page of a funnel, by default the newest days first, or the agents or URLs with the most events.
    pub(crate) async fn funnel(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, order, outcome): (FunnelBy, Option<Order>, Option<Outcome>),
        at: Paging,
    ) -> Result<FoundPage<FunnelRow>, ApiError> {
        let scope = self.scope(seen, period).await?.narrowed(outcome);
        let (owner, name, usual) = match by {
            FunnelBy::Agent => ("agent_platform", "agent_name", "whole"),
            FunnelBy::Url => ("nobody", "url", "whole"),
            FunnelBy::Day => ("nobody", "day", "name"),
        };
        let statement = scope.bind(Statement::new(FUNNEL)).with("owner", owner).with("name", name).with("usual", usual);
        self.page(order.unwrap_or(Order::descending(usual)).bind(statement), at).await
    }
}
