//! Responses with pages (docs/api/reads.md#formats).

use crate::ids::OrgId;
use crate::signature::SignatureProof;
use crate::summary_responses::TypeCount;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeMap;

/// Maximum items per page. A larger `limit` is reduced to this.
pub const MAX_PAGE: u64 = 1_000;
/// Default page size for events.
pub const EVENTS_PAGE: u64 = 100;
/// Default page size for URLs.
pub const URLS_PAGE: u64 = 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items from `offset`, at most `limit`.
    pub items: Vec<T>,
    pub total: u64,
    /// The limit that was applied.
    pub limit: u64,
    pub offset: u64,
}

/// One event. A fetch is one item, with the content of the report that represents it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventItem {
    /// The reporter's id, or the event's key as a UUID.
    pub event_id: String,
    /// Empty if missing.
    pub session_id: String,
    pub event_type: String,
    /// As reported; empty if missing.
    pub content_url: String,
    /// UTC, to the millisecond.
    pub event_timestamp: String,
    /// Other reported members, and `observers`: the roles that reported it.
    pub event_data: BTreeMap<String, Box<RawValue>>,
    /// The organization that owns the session; without a session, the reporter.
    pub platform_id: String,
    /// The reporter's name for its agent; empty if missing.
    pub agent_id: String,
    /// For an owner's event: `fetch`, `revalidation` or `failed`; empty for events other than fetches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// For an owner's event: the bot; empty if no server names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bot: Option<String>,
    /// For an owner's event: the name of `platform_id`; empty if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_name: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventReport {
    /// The reported or inferred role; empty if it is unknown.
    pub source_role: String,
    /// The reporter's id, or the report's key as a UUID.
    pub event_id: String,
    /// Empty if missing.
    pub session_id: String,
    pub event_type: String,
    /// As reported; empty if missing.
    pub content_url: String,
    /// UTC, to the millisecond, by this observer's clock.
    pub event_timestamp: String,
    /// Other reported members.
    pub event_data: BTreeMap<String, Box<RawValue>>,
    /// The organization that owns the session, or else the reporter if it is an agent or its report represents the event. Empty otherwise.
    pub platform_id: String,
    /// The name of that organization.
    pub platform_name: String,
    /// The reporter's name for its agent; empty if missing.
    pub agent_id: String,
    /// `valid`, `invalid` or `none`: the result for the report, or for the fetch in its log line.
    pub signature: String,
    /// Why it isn't valid; empty if it is, or without a signature.
    pub signature_reason: String,
    /// For a fetch: origin of the agent's key set; empty without a valid signature.
    pub signed_by: String,
    /// Null if no key was found.
    pub signature_proof: Option<SignatureProof>,
}

/// One event as in lists of events, with the report of each observer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EventReports {
    #[serde(flatten)]
    pub event: EventItem,
    /// The corroboration part that the fetch counts in; null for other events.
    pub corroboration: Option<String>,
    /// Number of events with this id in the period. Ids belong to reporters, so two reporters may use the same one.
    pub events_of_this_id: u64,
    pub total_reports: u64,
    /// Reports in order of precedence, possibly truncated. The first represents the event.
    pub reports: Vec<EventReport>,
}

/// One event, for its reporter or for the issuer of its click token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentEventItem {
    #[serde(flatten)]
    pub event: EventItem,
    /// The reported or inferred role; empty if it is unknown.
    pub source_role: String,
    /// Empty if missing.
    pub content_telemetry_id: String,
    /// `self`, or `other` for an event that another organization reported with the reader's click token.
    pub reported_by: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlMetric {
    pub content_url: String,
    /// Split by page and agent: the agent's organization; empty without a claim.
    pub platform_id: Option<String>,
    /// By page and agent: the name of that organization.
    pub platform_name: Option<String>,
    /// Split by page and agent: the platform's name for the agent.
    pub agent_id: Option<String>,
    /// Split by page and agent: the bot that servers saw; empty with a claim.
    pub bot: Option<String>,
    pub total_events: u64,
    /// Distinct pairs of platform and session.
    pub unique_sessions: u64,
    pub event_types: Vec<TypeCount>,
    /// Fetches.
    pub fetched: u64,
    /// Failed fetches of events and log lines.
    pub failed: u64,
    /// Revalidations of events and log lines.
    pub revalidated: u64,
    pub grounded: u64,
    pub cited: u64,
    pub presented: u64,
    /// Engagements that aren't visits.
    pub engagements: u64,
    pub visits: u64,
    /// Last event or log line. UTC, to the millisecond.
    pub last_seen: String,
}

/// A day's fetches by reporter, for one agent or for all. The four parts add up to `retrievals`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorroborationItem {
    pub day: String,
    /// Split by agent: the agent's organization; empty without a claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_id: Option<String>,
    /// Split by agent: the name of that organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_name: Option<String>,
    /// Split by agent: the platform's name for the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub retrievals: u64,
    /// Reported by an agent, and by an edge or origin.
    pub seen_by_both: u64,
    /// Reported by an agent, but by no edge or origin.
    pub claimed_by_agent_only: u64,
    /// Reported by an edge or origin, but by no agent.
    pub seen_by_server_only: u64,
    /// Reported by neither: by an index only, or without a role and a session.
    pub seen_by_neither: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Corroboration {
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    pub note: String,
    #[serde(flatten)]
    pub page: Page<CorroborationItem>,
}

named_enum! {
    /// Result of comparing what agents claim about a fetch with what servers saw (docs/api/reconciliation.md).
    pub enum Finding {
        SignatureUnverified = "signature_unverified",
        DuplicateReport = "duplicate_report",
        IdentityMismatch = "identity_mismatch",
        ContentMismatch = "content_mismatch",
        TimestampMismatch = "timestamp_mismatch",
        Missing = "missing",
        Extra = "extra",
        NoCoverage = "no_coverage",
        Matched = "matched",
    }
}

/// Fetches of a licensee with the same finding, or one fetch.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconciliationItem {
    /// The licensee; empty if it is unknown.
    pub operator: String,
    /// A [`Finding`].
    pub finding: String,
    /// By agent or event: the agent's organization; empty without a claim.
    pub platform_id: Option<String>,
    /// By agent or event: the platform's name for the agent.
    pub agent_id: Option<String>,
    pub content_url: Option<String>,
    /// By event: as in the list of events.
    pub event_id: Option<String>,
    pub event_timestamp: Option<String>,
    /// Except by event.
    pub fetches: Option<u64>,
    /// Time of the newest fetch, except by event.
    pub last_seen: Option<String>,
}

/// Events by step. Each event counts once, under one key.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunnelItem {
    pub day: Option<String>,
    /// Split by agent: the agent's organization; empty without a report by an agent.
    pub platform_id: Option<String>,
    /// Split by agent: the name of that organization.
    pub platform_name: Option<String>,
    /// Split by agent: the platform's name for the agent.
    pub agent_id: Option<String>,
    /// Split by agent: the bot of events without an agent.
    pub bot: Option<String>,
    pub content_url: Option<String>,
    /// Events about requests, whatever their outcome.
    pub retrieved: u64,
    /// Fetches.
    pub fetched: u64,
    /// Failed fetches of events and log lines.
    pub failed: u64,
    /// Revalidations of events and log lines.
    pub revalidated: u64,
    pub grounded: u64,
    pub cited: u64,
    pub presented: u64,
    /// Engagements and visits.
    pub engaged: u64,
    /// Engagements that aren't visits.
    pub engagements: u64,
    pub visits: u64,
}
