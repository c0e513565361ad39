//! A tenant's counts, from the ledger or from a read.

use crate::workload::{ROLES, TYPES};
use schemas::summary_responses::Summary;
use serde::Serialize;

/// Counts. Those for [`TYPES`] and [`ROLES`] are in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    pub total: u64,
    /// Distinct events that are not late.
    pub in_window: u64,
    pub sessions: u64,
    pub by_type: [u64; TYPES.len()],
    /// Distinct events by the role that reported them.
    pub by_role: [u64; ROLES.len()],
}

/// A summary's counts, and the sums of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Counts for the generated types and roles; `in_window` equals `total`.
    pub figures: Figures,
    /// Sum over all types, including those that are never sent.
    pub sum_of_types: u64,
    pub sum_of_roles: u64,
    pub sum_of_agents: u64,
    /// Number of sessions in the agents' reports.
    pub agent_sessions: u64,
    /// Types and roles that are never sent.
    pub unknown_names: Vec<String>,
}

impl Observed {
    pub fn from_summary(summary: &Summary) -> Self {
        let mut figures = Figures {
            total: summary.total_events,
            in_window: summary.total_events,
            sessions: summary.total_sessions,
            ..Figures::default()
        };
        let mut unheard_of = Vec::new();
        for row in &summary.events_by_type {
            match TYPES.iter().position(|known| *known == row.event_type) {
                Some(place) => figures.by_type[place] += row.count,
                None => unheard_of.push(row.event_type.clone()),
            }
        }
        let mut agent_sessions = 0;
        for row in &summary.events_by_source {
            match ROLES.iter().position(|known| known.as_str() == row.source_role) {
                Some(place) => figures.by_role[place] += row.count,
                None => unheard_of.push(row.source_role.clone()),
            }
            agent_sessions += if row.source_role == "agent" { row.sessions } else { 0 };
        }
        Self {
            figures,
            sum_of_types: summary.events_by_type.iter().map(|row| row.count).sum(),
            sum_of_roles: summary.events_by_source.iter().map(|row| row.count).sum(),
            sum_of_agents: summary.agents.iter().map(|row| row.event_count).sum(),
            agent_sessions,
            unknown_names: unheard_of,
        }
    }
}

impl Figures {
    /// Subtracts `earlier`. Negative results become 0, and are then reported as lost events.
    pub fn minus(&self, earlier: &Self) -> Self {
        let mut left = self.clone();
        for ((_, value), (_, earlier)) in left.named_mut().into_iter().zip(earlier.named()) {
            *value = value.saturating_sub(earlier);
        }
        left
    }

    /// Returns all counts with their names, except `in_window`, which only reads over a period have.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let mut named = vec![("total_events", self.total), ("total_sessions", self.sessions)];
        named.extend(TYPES.into_iter().zip(self.by_type));
        named.extend(ROLES.iter().map(|role| role.as_str()).zip(self.by_role));
        named
    }

    fn named_mut(&mut self) -> Vec<(&'static str, &mut u64)> {
        let mut named = vec![("total_events", &mut self.total), ("total_sessions", &mut self.sessions)];
        named.extend(TYPES.into_iter().zip(&mut self.by_type));
        named.extend(ROLES.iter().map(|role| role.as_str()).zip(&mut self.by_role));
        named
    }
}
