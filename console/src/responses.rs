//! API responses, with the members that pages show (`schemas/openapi`).

use crate::coverage::Coverage;
use crate::labels;
use crate::numbers::{Count, Digits, Share, Time, money};
use crate::sort::{Headings, Key};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use uuid::Uuid;

/// `GET /api/v1/identity/auth/session`
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SessionInfo {
    pub(crate) user: User,
    pub(crate) is_operator: bool,
    pub(crate) memberships: Vec<Membership>,
    /// Message about the form that led to the page.
    #[serde(skip)]
    pub(crate) done: Option<&'static str>,
    /// Chosen color theme; empty for the browser's.
    #[serde(skip)]
    pub(crate) theme: &'static str,
    /// Address of the page.
    #[serde(skip)]
    pub(crate) here: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct User {
    pub(crate) id: Uuid,
    pub(crate) email: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Membership {
    pub(crate) organization_id: Uuid,
    pub(crate) name: String,
    pub(crate) org_type: OrgType,
    pub(crate) role: Role,
}

impl Membership {
    /// Path prefix of the organization's screens.
    pub(crate) fn home(&self) -> String {
        format!("/console/o/{}", self.organization_id)
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.role == Role::Owner
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OrgType {
    ContentOwner,
    Platform,
    Agent,
}

impl OrgType {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::ContentOwner => "Content owner",
            Self::Platform => "Platform",
            Self::Agent => "Agent",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Owner,
    Member,
}

impl Role {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Owner => "Owner",
            Self::Member => "Member",
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    pub(crate) total: u64,
}

/// `GET /content-owners/summary`
#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    pub(crate) total_events: u64,
    pub(crate) events_by_type: Vec<TypeCount>,
    pub(crate) events_by_source: Vec<SourceCount>,
    pub(crate) agents: Vec<AgentCount>,
}

impl Summary {
    /// Returns the number of events of a type.
    pub(crate) fn of_type(&self, event_type: &str) -> u64 {
        self.events_by_type.iter().find(|counted| counted.event_type == event_type).map_or(0, |counted| counted.count.0)
    }
}

/// Label for the sum of unlisted rows.
pub(crate) const ALL_OTHERS: &str = "All others";

#[derive(Debug, Deserialize)]
pub(crate) struct TypeCount {
    pub(crate) event_type: String,
    pub(crate) count: Count,
    /// Sum of unlisted types.
    #[serde(default)]
    pub(crate) other: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SourceCount {
    pub(crate) source_role: String,
    pub(crate) count: Count,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AgentCount {
    pub(crate) agent_id: String,
}

/// Part of `GET /agent/summary`: others' events with the organization's click tokens.
#[derive(Debug, Deserialize)]
pub(crate) struct Clicks {
    pub(crate) total_events: Count,
    pub(crate) total_sessions: Count,
    pub(crate) events_by_type: Vec<TypeCount>,
}

/// Part of `GET /agent/summary`: outcomes of the organization's sessions.
#[derive(Debug, Deserialize)]
pub(crate) struct Outcomes {
    pub(crate) total: Count,
    pub(crate) by_type: Vec<OutcomeCount>,
    pub(crate) by_currency: Vec<OutcomeValue>,
}

impl Outcomes {
    /// Sorts both lists.
    pub(crate) fn sort(&mut self, headings: &Headings) {
        headings.sort(&mut self.by_type, |outcome, column| match column {
            "outcome" => Some(Key::text(outcome.label())),
            "ended" => Some(Key::number(outcome.count.0)),
            _ => None,
        });
        headings.sort(&mut self.by_currency, |value, column| match column {
            "outcome" => Some(Key::text(&value.currency)),
            "ended" => Some(Key::number(value.count.0)),
            "value" => Some(Key::digits(&value.value_amount)),
            _ => None,
        });
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct OutcomeCount {
    pub(crate) outcome_type: String,
    pub(crate) count: Count,
}

impl OutcomeCount {
    pub(crate) fn label(&self) -> &str {
        labels::outcome(&self.outcome_type)
    }
}

/// The sum of minor units may exceed 64 bits, so it is stored as digits.
#[derive(Debug, Deserialize)]
pub(crate) struct OutcomeValue {
    pub(crate) currency: String,
    pub(crate) count: Count,
    pub(crate) value_amount: Digits,
}

impl OutcomeValue {
    pub(crate) fn money(&self) -> String {
        money(&self.value_amount.0.to_string(), &self.currency)
    }
}

/// `GET /agent/events`
#[derive(Debug, Deserialize)]
pub(crate) struct OwnEvent {
    pub(crate) event_id: String,
    pub(crate) session_id: String,
    pub(crate) event_type: String,
    pub(crate) content_url: String,
    pub(crate) event_timestamp: Time,
    pub(crate) event_data: Map<String, Value>,
    pub(crate) agent_id: String,
    pub(crate) source_role: String,
    pub(crate) reported_by: String,
}

/// `GET /content-owners/series`
#[derive(Debug, Deserialize)]
pub(crate) struct Series {
    pub(crate) items: Vec<SeriesItem>,
    /// Missing if no server reports for the domains.
    #[serde(default)]
    pub(crate) coverage: Option<Coverage>,
}

impl Series {
    /// Returns the number of events with this outcome, in a series by outcome.
    pub(crate) fn of_outcome(&self, outcome: &str) -> u64 {
        self.items.iter().filter(|item| item.outcome == outcome).map(|item| item.total_events).sum()
    }

    /// Adds items for events without an item, per bucket, so that the sum equals that of `all`.
    pub(crate) fn completed_to(mut self, all: &[SeriesItem]) -> Self {
        let mut rest = BTreeMap::<DateTime<Utc>, u64>::new();
        all.iter().for_each(|item| *rest.entry(item.start).or_default() += item.total_events);
        for item in &self.items {
            rest.entry(item.start).and_modify(|rest| *rest = rest.saturating_sub(item.total_events));
        }
        let item = |(start, total_events)| SeriesItem { start, total_events, ..SeriesItem::default() };
        self.items.extend(rest.into_iter().filter(|(_, rest)| *rest > 0).map(item));
        self
    }
}

/// The split value is in one of the name fields.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SeriesItem {
    pub(crate) start: DateTime<Utc>,
    #[serde(default)]
    pub(crate) event_type: String,
    #[serde(default)]
    pub(crate) agent_or_bot: String,
    #[serde(default)]
    pub(crate) operator: String,
    #[serde(default)]
    pub(crate) purpose: String,
    #[serde(default)]
    pub(crate) outcome: String,
    /// 0 if no server reported a status.
    #[serde(default)]
    pub(crate) status: u16,
    /// Sum of unlisted values.
    #[serde(default)]
    pub(crate) other: bool,
    pub(crate) total_events: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) event_id: String,
    pub(crate) session_id: String,
    pub(crate) event_type: String,
    pub(crate) content_url: String,
    pub(crate) event_timestamp: Time,
    pub(crate) event_data: Map<String, Value>,
    pub(crate) agent_id: String,
    pub(crate) outcome: String,
    pub(crate) bot: String,
}

/// `GET /content-owners/events/{id}`
#[derive(Debug, Deserialize)]
pub(crate) struct OneEvent {
    pub(crate) event_type: String,
    pub(crate) content_url: String,
    pub(crate) event_timestamp: Time,
    pub(crate) outcome: String,
    pub(crate) corroboration: Option<String>,
    pub(crate) events_of_this_id: u64,
    pub(crate) total_reports: u64,
    pub(crate) reports: Vec<Report>,
}

/// The report of one observer.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) source_role: String,
    pub(crate) event_id: String,
    pub(crate) session_id: String,
    pub(crate) content_url: String,
    pub(crate) event_timestamp: Time,
    pub(crate) event_data: Map<String, Value>,
    pub(crate) platform_name: String,
    pub(crate) agent_id: String,
    pub(crate) signature: String,
    /// Why the signature is invalid.
    pub(crate) signature_reason: String,
    pub(crate) signed_by: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UrlMetric {
    pub(crate) content_url: String,
    #[serde(default)]
    pub(crate) platform_id: String,
    #[serde(default)]
    pub(crate) agent_id: String,
    #[serde(default)]
    pub(crate) bot: String,
    pub(crate) fetched: Count,
    pub(crate) failed: Count,
    pub(crate) revalidated: Count,
    pub(crate) cited: Count,
    pub(crate) presented: Count,
    pub(crate) engagements: Count,
    pub(crate) visits: Count,
    pub(crate) unique_sessions: Count,
    pub(crate) last_seen: Time,
}

/// All agents on one day.
#[derive(Debug, Deserialize)]
pub(crate) struct CorroboratedDay {
    pub(crate) day: chrono::NaiveDate,
    pub(crate) seen_by_both: Count,
    pub(crate) claimed_by_agent_only: Count,
}

/// An item of `GET /content-owners/corroboration`
#[derive(Debug, Deserialize)]
pub(crate) struct Corroborated {
    pub(crate) day: chrono::NaiveDate,
    pub(crate) platform_id: String,
    pub(crate) agent_id: String,
    pub(crate) retrievals: Count,
    pub(crate) seen_by_both: Count,
    pub(crate) claimed_by_agent_only: Count,
    pub(crate) seen_by_server_only: Count,
    pub(crate) seen_by_neither: Count,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FunnelItem {
    #[serde(default)]
    pub(crate) day: String,
    #[serde(default)]
    pub(crate) content_url: String,
    #[serde(default)]
    pub(crate) platform_id: String,
    #[serde(default)]
    pub(crate) agent_id: String,
    /// Bot of events without an agent.
    #[serde(default)]
    pub(crate) bot: String,
    pub(crate) fetched: Count,
    pub(crate) grounded: Count,
    pub(crate) cited: Count,
    pub(crate) presented: Count,
    pub(crate) engagements: Count,
    pub(crate) visits: Count,
}

impl FunnelItem {
    /// Returns citations per fetch; a dash without fetches.
    pub(crate) fn cited_share(&self) -> Share {
        Share::new(self.cited, self.fetched)
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Organization {
    pub(crate) id: Uuid,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Domain {
    pub(crate) id: Uuid,
    pub(crate) domain: String,
    pub(crate) verified: bool,
    pub(crate) verification_method: Option<String>,
    pub(crate) verification_token: String,
    pub(crate) verified_at: Option<Time>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ApiKey {
    pub(crate) id: Uuid,
    pub(crate) name: Option<String>,
    pub(crate) prefix: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) created_by: Creator,
    pub(crate) created_at: Time,
    pub(crate) last_used_at: Option<Time>,
    pub(crate) revoked_at: Option<Time>,
    /// Present only in the response that creates it.
    #[serde(default)]
    pub(crate) key: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Creator {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Delegation {
    pub(crate) id: Uuid,
    pub(crate) grantor_org_id: Uuid,
    pub(crate) grantor_name: String,
    pub(crate) grantee_org_id: Uuid,
    pub(crate) grantee_name: String,
    pub(crate) created_at: Time,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DelegationRequest {
    pub(crate) id: Uuid,
    pub(crate) requester_name: String,
    pub(crate) grantor_name: String,
    pub(crate) domain: String,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Time,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Person {
    pub(crate) user_id: Uuid,
    pub(crate) email: String,
    pub(crate) role: Role,
    pub(crate) created_at: Time,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Invite {
    pub(crate) id: Uuid,
    pub(crate) email: String,
    pub(crate) role: Role,
    pub(crate) expires_at: Time,
    pub(crate) mailed_at: Option<Time>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Settings {
    pub(crate) share_sessions_via_click_tokens: bool,
    pub(crate) visible_in_click_token_lookups: bool,
}
