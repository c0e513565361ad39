//! The figures of a summary.

use super::scope::Outcome;
use super::statement::Statement;
use super::{Reads, caps};
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use crate::read_model::SummaryRow;
use schemas::event::SourceRole;
use serde::Deserialize;
use service_kit::http::ApiError;

const SUMMARY: &str = include_str!("../../sql/summary.sql");
/// Bits of a set of roles.
const ROLE_BITS: u8 = 8;

/// One figure; `name` is `total`, `role` or `agent`.
#[derive(clickhouse::Row, Deserialize)]
struct Figure {
    name: String,
    role_code: u8,
    platform_id: String,
    agent_id: String,
    agent_events: u64,
    sessions: u64,
    /// In the total: event types with the roles that reported them, and how many events each pair has.
    by_type: (Vec<(String, u8)>, Vec<u64>),
}

impl Reads {
    /// Returns the figures of a summary, in no order. Figures of one type, role or agent are parts that have to be added.
    pub(crate) async fn summary(
        &self,
        seen: &Visibility,
        period: &Period,
        outcome: Option<Outcome>,
    ) -> Result<Vec<SummaryRow>, ApiError> {
        let scope = self.scope(seen, period).await?.narrowed(outcome);
        let query = scope.bind(Statement::new(SUMMARY)).query(&self.client);
        let figures: Vec<Figure> = self.all_of(caps::of_any_size(query)).await?;
        Ok(figures.into_iter().flat_map(rows_of).collect())
    }
}

fn rows_of(figure: Figure) -> Vec<SummaryRow> {
    let Figure { name, role_code, platform_id, agent_id, agent_events, sessions, by_type: (types, counts) } = figure;
    match name.as_str() {
        "total" => {
            let parts = types.into_iter().zip(counts).flat_map(|((event_type, roles), events)| part(event_type, roles, events));
            [SummaryRow::Total { events: 0, sessions }].into_iter().chain(parts).collect()
        }
        "role" => source(role_code, 0, sessions).into_iter().collect(),
        _ => vec![SummaryRow::Agent { platform_id, agent_id, events: agent_events, sessions }],
    }
}

/// Events of one type that the same roles reported.
fn part(event_type: String, roles: u8, events: u64) -> Vec<SummaryRow> {
    let sources = (1..ROLE_BITS).filter(|role| roles >> role & 1 == 1).filter_map(|role| source(role, events, 0));
    [SummaryRow::Total { events, sessions: 0 }, SummaryRow::Type { event_type, events }].into_iter().chain(sources).collect()
}

/// Reports without a role are in no figure.
fn source(role: u8, events: u64, sessions: u64) -> Option<SummaryRow> {
    SourceRole::from_code(role).map(|role| SummaryRow::Source { role, events, sessions })
}
