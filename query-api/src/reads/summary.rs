//! The figures of a summary.

use super::scope::Scope;
use super::statement::Statement;
use super::{Reads, caps};
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::Outcome;
use crate::parameters::period::Period;
use schemas::event::SourceRole;
use serde::Deserialize;
use service_kit::http::ApiError;

const SUMMARY: &str = include_str!("../../sql/summary.sql");
const SUMMARY_ALL: &str = include_str!("../../sql/summary_all.sql");

/// One figure of a summary, or a part of it.
pub(crate) enum SummaryRow {
    Total {
        events: u64,
        sessions: u64,
    },
    /// Of one event type.
    Type {
        event_type: String,
        events: u64,
    },
    /// Of one source role.
    Source {
        role: SourceRole,
        events: u64,
        sessions: u64,
    },
    /// Of one reporting agent.
    Agent {
        platform_id: String,
        agent_id: String,
        events: u64,
        sessions: u64,
    },
}

/// One figure; `name` is `total`, `role` or `agent`.
#[derive(clickhouse::Row, Deserialize)]
struct Figure {
    name: String,
    role_code: u8,
    platform_id: String,
    agent_id: String,
    agent_events: u64,
    sessions: u64,
    /// In the total: events of each type.
    types: Vec<(String, u64)>,
    /// In the total: events that the roles from 1 on reported.
    roles_seen: Vec<u64>,
    /// In the total: events that [`SUMMARY`] cannot count.
    with_others: u64,
}

impl Reads {
    /// Returns the figures of a summary, in no order. Figures of one type, role or agent are parts that have to be added.
    pub(crate) async fn summary(
        &self,
        seen: &Visibility,
        period: &Period,
        outcome: Option<Outcome>,
    ) -> Result<Vec<SummaryRow>, ApiError> {
        let scope = Scope::new(seen, period).narrowed(outcome);
        let mut figures = self.figures(SUMMARY, &scope).await?;
        // All figures come from one of the two statements, so from one moment.
        if figures.iter().any(|figure| figure.with_others > 0) {
            figures = self.figures(SUMMARY_ALL, &scope).await?;
        }
        Ok(figures.into_iter().flat_map(rows_of).collect())
    }

    async fn figures(&self, sql: &'static str, scope: &Scope) -> Result<Vec<Figure>, ApiError> {
        self.all_of(caps::of_any_size(scope.bind(Statement::new(sql)).query(&self.client))).await
    }
}

fn rows_of(figure: Figure) -> Vec<SummaryRow> {
    let Figure { name, role_code, platform_id, agent_id, agent_events, sessions, types, roles_seen, .. } = figure;
    match name.as_str() {
        "total" => {
            let events = types.iter().map(|(_, events)| events).sum();
            let types = types.into_iter().map(|(event_type, events)| SummaryRow::Type { event_type, events });
            let roles = (1..).zip(roles_seen).filter(|(_, events)| *events > 0);
            let roles = roles.filter_map(|(role, events)| source(role, events, 0));
            [SummaryRow::Total { events, sessions }].into_iter().chain(types).chain(roles).collect()
        }
        "role" => source(role_code, 0, sessions).into_iter().collect(),
        _ => vec![SummaryRow::Agent { platform_id, agent_id, events: agent_events, sessions }],
    }
}

/// Reports without a role are in no figure.
fn source(role: u8, events: u64, sessions: u64) -> Option<SummaryRow> {
    SourceRole::from_code(role).map(|role| SummaryRow::Source { role, events, sessions })
}
