use super::Reads;
use super::scope::Scope;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
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
    pub(crate) types: BTreeMap<String, u64>,
    /// Events of unlisted types.
    pub(crate) other_types: u64,
    /// Events and sessions of each role that has reports.
    pub(crate) roles: BTreeMap<SourceRole, (u64, u64)>,
    /// Events and sessions by platform and agent.
    pub(crate) agents: BTreeMap<(String, String), (u64, u64)>,
    /// Events and sessions of unlisted agents, if there are any.
    pub(crate) other_agents: Option<(u64, u64)>,
}

#[derive(clickhouse::Row, Deserialize)]
struct Figure {
    /// `total`, `role`, `agent` or `other`; then role code, platform and agent.
    figure: (String, u8, String, String),
    /// Unused for roles.
    figure_events: u64,
    sessions: u64,
    /// In the total: each listed type's events.
    types: Vec<(String, u64)>,
    /// In the total: events by role, starting with role code 1.
    roles_seen: Vec<u64>,
    /// In the total: events that [`SUMMARY`] can't count.
    with_others: u64,
}

impl Reads {
    pub(crate) async fn summary(
        &self,
        seen: &Visibility,
        period: &Period,
        filter: &EventFilter,
    ) -> Result<SummaryFigures, ApiError> {
        let scope = Scope::new(seen, period).filtered(filter);
        let mut rows = self.figures(SUMMARY, &scope).await?;
        // All figures come from one of the two statements, so they describe the same moment.
        if rows.iter().any(|figure| figure.with_others > 0) {
            rows = self.figures(SUMMARY_ALL, &scope).await?;
        }
        let mut figures = SummaryFigures::default();
        rows.into_iter().for_each(|row| figures.add(row));
        Ok(figures)
    }

    async fn figures(&self, sql: &'static str, scope: &Scope) -> Result<Vec<Figure>, ApiError> {
        self.all(self.list_limits.in_summary(scope.bind(Statement::new(sql)))).await
    }
}

impl SummaryFigures {
    fn add(&mut self, row: Figure) {
        let Figure { figure: (name, role_code, platform_id, agent_id), figure_events, sessions, types, roles_seen, .. } = row;
        // Reports without a role don't count for any role.
        match (name.as_str(), SourceRole::from_code(role_code)) {
            ("total", _) => {
                self.events = figure_events;
                self.sessions = sessions;
                self.types = types.into_iter().collect();
                self.other_types = figure_events - self.types.values().sum::<u64>();
                let seen = (1..).zip(roles_seen).filter(|(_, events)| *events > 0);
                for (role, events) in seen.filter_map(|(code, events)| Some((SourceRole::from_code(code)?, events))) {
                    self.roles.entry(role).or_default().0 = events;
                }
            }
            ("role", Some(role)) => self.roles.entry(role).or_default().1 = sessions,
            ("role", None) => {}
            ("other", _) => self.other_agents = Some((figure_events, sessions)),
            _ => {
                self.agents.insert((platform_id, agent_id), (figure_events, sessions));
            }
        }
    }
}
