//! What reads answer: the summary and the domain resolution (docs/api/reads.md#get-content-ownerssummary).

use crate::coverage::Coverage;
use crate::ids::OrgId;
use serde::{Deserialize, Serialize};
use std::ops::Not;

/// `GET /content-owners/summary`. Figures: docs/api/event-keys.md#figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Whose telemetry it is; the grantor's id on a delegated read.
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    /// A retrieval seen by several observers counts once.
    pub total_events: u64,
    /// Distinct (platform, session); an absent session is none.
    pub total_sessions: u64,
    pub events_by_type: Vec<TypeCount>,
    /// What each role saw; may add up to more than `total_events`: the surplus is corroboration.
    pub events_by_source: Vec<SourceCount>,
    /// Reporting agents, most events first.
    pub agents: Vec<AgentCount>,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeCount {
    pub event_type: String,
    pub count: u64,
    /// Whether it is the sum of the types that are not listed; then it has no name.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

impl TypeCount {
    /// Returns the sum of the types that are not listed, if they have events.
    pub fn of_others(count: u64) -> Option<Self> {
        (count > 0).then_some(Self { event_type: String::new(), count, other: true })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCount {
    /// `agent`, `edge`, `origin` or `index`.
    pub source_role: String,
    /// Distinct events seen by this role.
    pub count: u64,
    /// Distinct sessions of this role's reports.
    pub sessions: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCount {
    pub platform_id: String,
    /// As the reporter names its agent; empty when it names none.
    pub agent_id: String,
    pub event_count: u64,
    pub session_count: u64,
    /// Whether it is the sum of the agents that are not listed, with their distinct sessions; then it has no names.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// Canonical form of the domain asked for.
    pub domain: String,
    /// Whether a verified owner answers for it.
    pub handled: bool,
    pub organization: Option<OrgName>,
}

/// An organisation as strangers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrgName {
    pub id: OrgId,
    pub name: String,
}
