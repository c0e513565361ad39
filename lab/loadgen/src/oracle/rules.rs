//! The rules for reads, as comparisons of counts.

use super::{Figures, Observed};
use crate::workload::{AGENT, ROLES};
use serde::Serialize;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// An acknowledged event is missing.
    Lost,
    /// More events than were sent and not rejected: duplicates or phantoms.
    TooMany,
    /// The parts don't add up to the total.
    Sum,
    /// An event is visible that was never sent or was rejected.
    Phantom,
    /// An item occurs twice.
    Double,
    /// Only a part of a request is visible.
    Torn,
    /// A count decreased although nothing was deleted.
    Fell,
    /// Data of another tenant, or data that was never sent.
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub tenant: String,
    pub rule: Rule,
    /// Actual and expected counts.
    pub figures: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Rule::Lost => "lost",
            Rule::TooMany => "too many",
            Rule::Sum => "parts do not add up",
            Rule::Phantom => "phantom",
            Rule::Double => "duplicate",
            Rule::Torn => "partial request",
            Rule::Fell => "count decreased",
            Rule::Foreign => "foreign",
        };
        write!(f, "{}: {rule}: {}", self.tenant, self.figures)
    }
}

type Violations = Vec<(Rule, String)>;

/// Checks the identities within a response (docs/api/event-keys.md#figures).
pub(super) fn agrees_with_itself(observed: &Observed) -> Violations {
    let Observed { figures, sum_of_types, .. } = observed;
    let mut broken = Violations::new();
    if *sum_of_types != figures.total {
        broken.push((Rule::Sum, format!("events_by_type adds up to {sum_of_types}, total_events is {}", figures.total)));
    }
    for (role, count) in ROLES.iter().zip(figures.by_role).filter(|(_, count)| *count > figures.total) {
        broken.push((Rule::Sum, format!("{} saw {count}, total_events is {}", role.as_str(), figures.total)));
    }
    broken
}

/// Checks further identities for tenants without earlier data: each event has a role, and only agents have sessions.
pub(super) fn is_all_ours(observed: &Observed) -> Violations {
    let Observed { figures, sum_of_roles, sum_of_agents, agent_sessions, unknown_names: unheard_of, .. } = observed;
    let mut broken = Violations::new();
    if *sum_of_roles < figures.total {
        broken.push((Rule::Sum, format!("events_by_source adds up to {sum_of_roles}, total_events is {}", figures.total)));
    }
    if *sum_of_agents != figures.by_role[AGENT] {
        let seen = figures.by_role[AGENT];
        broken.push((Rule::Sum, format!("agents adds up to {sum_of_agents}, and their role saw {seen}")));
    }
    if *agent_sessions != figures.sessions {
        let agents = ROLES[AGENT].as_str();
        broken.push((Rule::Sum, format!("{agents} has {agent_sessions} sessions, total_sessions is {}", figures.sessions)));
    }
    broken.extend(unheard_of.iter().map(|name| (Rule::Foreign, format!("{name} was never sent"))));
    broken
}

/// Checks that no count exceeds the possible maximum.
pub(super) fn within(counted: &Figures, possible: &Figures) -> Violations {
    let over = pairs(counted, possible).filter(|(_, counted, possible)| counted > possible);
    over.map(|(name, counted, possible)| (Rule::TooMany, format!("{name}: {counted} counted, at most {possible} possible")))
        .collect()
}

/// Checks that no count has decreased, because these runs don't delete data.
pub(super) fn has_not_fallen(counted: &Figures, previous: &Figures) -> Violations {
    let fallen = pairs(counted, previous).filter(|(_, counted, previous)| counted < previous);
    fallen.map(|(name, counted, previous)| (Rule::Fell, format!("{name}: {counted} counted after {previous}"))).collect()
}

/// Checks that all acknowledged events are counted.
pub(super) fn covers(counted: &Figures, acked: &Figures) -> Violations {
    let missing = pairs(counted, acked).filter(|(_, counted, acked)| counted < acked);
    missing.map(|(name, counted, acked)| (Rule::Lost, format!("{name}: {counted} counted, {acked} acknowledged"))).collect()
}

fn pairs(a: &Figures, b: &Figures) -> impl Iterator<Item = (&'static str, u64, u64)> {
    a.named().into_iter().zip(b.named()).map(|((name, a), (_, b))| (name, a, b))
}
