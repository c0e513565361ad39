//! What the paged reads answer (docs/api/reads.md#formats).

use crate::ids::OrgId;
use crate::reads::TypeCount;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeMap;

/// Every page holds at most so many items; a larger `limit` is read as this.
pub const MAX_PAGE: u64 = 1_000;
/// Items of a page of events, when the caller does not say.
pub const EVENTS_PAGE: u64 = 100;
/// Items of a page of URLs, when the caller does not say.
pub const URLS_PAGE: u64 = 20;

/// A part of a list, and how long the whole list is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items from `offset` on, at most `limit`.
    pub items: Vec<T>,
    pub total: u64,
    /// What held: a larger one that was asked for is not.
    pub limit: u64,
    pub offset: u64,
}

/// One event; all reports of one retrieval are one item, with the content of the report that represents it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventItem {
    /// The reporter's id; of an event without one the key it is counted by, as a UUID.
    pub event_id: String,
    /// Empty when there is none.
    pub session_id: String,
    pub event_type: String,
    /// As reported; empty when there is none.
    pub content_url: String,
    /// UTC, to the millisecond.
    pub event_timestamp: String,
    /// What was reported beside the members above, and `observers`: the roles that saw it.
    pub event_data: BTreeMap<String, Box<RawValue>>,
    /// Whose session it is; without one, who reported it.
    pub platform_id: String,
    /// As the reporter names its agent; empty when it names none.
    pub agent_id: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventReport {
    /// The role it was reported in, or counts as; empty when none was given and any could be.
    pub source_role: String,
    /// The reporter's own id of it; of one without the key it is counted by, as a UUID.
    pub event_id: String,
    /// Empty when there is none.
    pub session_id: String,
    pub event_type: String,
    /// As reported; empty when there is none.
    pub content_url: String,
    /// UTC, to the millisecond, by this observer's clock.
    pub event_timestamp: String,
    /// What was reported beside the members above.
    pub event_data: BTreeMap<String, Box<RawValue>>,
    /// Whose session it is; without one, who reported it, where that is an agent or its report represents the event. Else empty.
    pub platform_id: String,
    /// As the reporter names its agent; empty when it names none.
    pub agent_id: String,
}

/// One event as the list of events shows it, and what each of its observers said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventReports {
    #[serde(flatten)]
    pub event: EventItem,
    /// Of a retrieval of content, the part of corroboration that it counts in; else null.
    pub corroboration: Option<String>,
    /// Events of this id in the window: ids are their reporters', and two reporters may use one.
    pub events_of_this_id: u64,
    pub total_reports: u64,
    /// The first of them by precedence; the first one represents the event.
    pub reports: Vec<EventReport>,
}

/// One event, for who took part in it: its reporter, or the issuer of the click token that bound it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentEventItem {
    #[serde(flatten)]
    pub event: EventItem,
    /// The role it was reported in, or counts as; empty when none was given and any could be.
    pub source_role: String,
    /// Empty when there is none.
    pub content_telemetry_id: String,
    /// `self`, or `other` for what another bound by a click token of who reads.
    pub reported_by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlMetric {
    pub content_url: String,
    pub total_events: u64,
    /// Distinct (platform, session).
    pub unique_sessions: u64,
    pub event_types: Vec<TypeCount>,
    /// UTC, to the millisecond.
    pub last_seen: String,
}

/// The retrievals of one agent on one day, or of all agents, by who saw them. The four parts add up to `retrievals`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorroborationItem {
    pub day: String,
    /// By agent: whose agent claims them; empty when no agent does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_id: Option<String>,
    /// By agent: as that platform names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub retrievals: u64,
    /// Reported by an agent, and by an edge or origin.
    pub seen_by_both: u64,
    /// Reported by an agent, but by no edge or origin.
    pub claimed_by_agent_only: u64,
    /// Reported by an edge or origin, but by no agent.
    pub seen_by_server_only: u64,
    /// Reported by neither: by an index, or without a role and session.
    pub seen_by_neither: u64,
}

/// A page of corroboration, with what it can and cannot mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Corroboration {
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    pub note: String,
    #[serde(flatten)]
    pub page: Page<CorroborationItem>,
}

/// What became of content, step by step. Each event counts once, under one key.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunnelItem {
    pub day: Option<String>,
    /// By agent: whose agent; empty where no agent reported.
    pub platform_id: Option<String>,
    /// By agent: as that platform names it.
    pub agent_id: Option<String>,
    pub content_url: Option<String>,
    pub retrieved: u64,
    pub grounded: u64,
    pub cited: u64,
    pub presented: u64,
    pub engaged: u64,
}
