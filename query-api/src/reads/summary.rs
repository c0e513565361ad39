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
use std::collections::BTreeMap;

const SUMMARY: &str = include_str!("../../sql/summary.sql");
const SUMMARY_ALL: &str = include_str!("../../sql/summary_all.sql");

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SummaryFigures {
    pub(crate) events: u64,
    pub(crate) sessions: u64,
    /// Events by type.
    pub(crate) types: BTreeMap<String, u64>,
    /// Events and sessions of each role that reported any.
    pub(crate) roles: BTreeMap<SourceRole, (u64, u64)>,
    /// Events and sessions by platform and agent.
    pub(crate) agents: BTreeMap<(String, String), (u64, u64)>,
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
    pub(crate) async fn summary(
        &self,
        seen: &Visibility,
        period: &Period,
        outcome: Option<Outcome>,
    ) -> Result<SummaryFigures, ApiError> {
        let scope = Scope::new(seen, period).narrowed(outcome);
        let mut rows = self.figures(SUMMARY, &scope).await?;
        // All figures come from one of the two statements, so from one moment.
        if rows.iter().any(|figure| figure.with_others > 0) {
            rows = self.figures(SUMMARY_ALL, &scope).await?;
        }
        let mut figures = SummaryFigures::default();
        rows.into_iter().for_each(|row| figures.add(row));
        Ok(figures)
    }

    async fn figures(&self, sql: &'static str, scope: &Scope) -> Result<Vec<Figure>, ApiError> {
        self.all_of(caps::of_any_size(scope.bind(Statement::new(sql)).query(&self.client))).await
    }
}

impl SummaryFigures {
    fn add(&mut self, row: Figure) {
        let Figure { name, role_code, platform_id, agent_id, agent_events, sessions, types, roles_seen, .. } = row;
        // Reports without a role are in no figure of a role.
        match (name.as_str(), SourceRole::from_code(role_code)) {
            ("total", _) => {
                self.events = types.iter().map(|(_, events)| events).sum();
                self.sessions = sessions;
                self.types = types.into_iter().collect();
                let seen = (1..).zip(roles_seen).filter(|(_, events)| *events > 0);
                for (role, events) in seen.filter_map(|(code, events)| Some((SourceRole::from_code(code)?, events))) {
                    self.roles.entry(role).or_default().0 = events;
                }
            }
            ("role", Some(role)) => self.roles.entry(role).or_default().1 = sessions,
            ("role", None) => {}
            _ => {
                self.agents.insert((platform_id, agent_id), (agent_events, sessions));
            }
        }
    }
}
