//! Responses of the summary and of domain resolution (docs/api/reads.md#get-content-ownerssummary).

use crate::coverage::Coverage;
use crate::ids::OrgId;
use serde::{Deserialize, Serialize};
use std::ops::Not;

/// `GET /content-owners/summary`. Figures: docs/api/event-keys.md#figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The data's owner; the grantor's id for a delegated read.
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    /// A fetch that several observers report counts once.
    pub total_events: u64,
    /// Distinct pairs of platform and session; events without a session don't count.
    pub total_sessions: u64,
    pub events_by_type: Vec<TypeCount>,
    /// Events by reporting role. Their sum may exceed `total_events`, because several roles may report the same event.
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
    /// Whether this is the sum of unlisted types. Then it has no name.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

impl TypeCount {
    /// Returns the sum of unlisted types, if they have events.
    pub fn sum_of_others(count: u64) -> Option<Self> {
        (count > 0).then_some(Self { event_type: String::new(), count, other: true })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCount {
    /// `agent`, `edge`, `origin` or `index`.
    pub source_role: String,
    /// Distinct events seen by this role.
    pub count: u64,
    pub sessions: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCount {
    pub platform_id: String,
    /// The reporter's name for its agent; empty if missing.
    pub agent_id: String,
    pub event_count: u64,
    pub session_count: u64,
    /// Whether this is the sum of unlisted agents, with their distinct sessions. Then it has no names.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// Canonical form of the requested domain.
    pub domain: String,
    /// Whether it has a verified owner.
    pub handled: bool,
    pub organization: Option<OrgName>,
}

/// The public part of an organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrgName {
    pub id: OrgId,
    pub name: String,
}
