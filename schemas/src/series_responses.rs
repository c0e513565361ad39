//! Responses of reads over time, and an organization's own figures (docs/api/reads.md#get-content-ownersseries).

use crate::coverage::Coverage;
use crate::ids::OrgId;
use crate::summary_responses::{SourceCount, TypeCount};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with_macros::skip_serializing_none;
use std::ops::Not;

/// `GET /content-owners/series` and, with another item type, `GET /agent/series`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series<T> {
    /// The owner of the data; the grantor's id for a delegated read.
    pub organization_id: OrgId,
    /// The domains that the figures cover, sorted; absent for an organization's own figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<Vec<String>>,
    pub by: String,
    /// What each bucket is split by, or `none`.
    pub split: String,
    /// Whether every value has an item in every bucket. If not, missing items are zero.
    pub filled: bool,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
    /// Hours with server data, if the hosts have a drain; absent for an organization's own figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    pub total: u64,
    pub items: Vec<T>,
}

/// The figures of one bucket, or of one value in it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesItem {
    /// Start of the bucket: a full hour or day in UTC.
    pub start: String,
    pub event_type: Option<String>,
    /// Split by role: `agent`, `edge`, `origin` or `index`.
    pub source_role: Option<String>,
    /// Split by agent or platform: the reporting organization.
    pub platform_id: Option<String>,
    /// Split by agent: the reporter's name for its agent; empty if missing.
    pub agent_id: Option<String>,
    /// Split by agent or bot: the agent or, without one, the bot; empty if both are unknown.
    pub agent_or_bot: Option<String>,
    /// Split by operator: the bot's operator; empty if no server names one.
    pub operator: Option<String>,
    /// Split by bot: its name; empty if no server names one.
    pub bot: Option<String>,
    /// Split by purpose: `training`, `search` or `user`; empty if no server names a bot.
    pub purpose: Option<String>,
    /// Split by verified: whether the request came from an address of the operator; null if unknown.
    #[serde(default, deserialize_with = "even_null")]
    pub verified: Option<Option<bool>>,
    /// Split by status: HTTP status; 0 if unknown, or if a failed fetch got no response.
    pub status: Option<u16>,
    /// Split by outcome: `fetch`, `revalidation` or `failed`; empty for events other than fetches.
    pub outcome: Option<String>,
    /// Split by evidence: `claimed`, `observed` or `corroborated`; empty if neither agents nor servers report it. `signed` counts
    /// events with a valid signature again.
    pub evidence: Option<String>,
    /// Split by signature: `valid`, `invalid` or `none`.
    pub signature: Option<String>,
    /// Whether this is the sum of unlisted values. Then it has no name.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
    /// Events by their time.
    pub total_events: u64,
    /// Distinct sessions of this bucket. A long session is in several buckets.
    pub total_sessions: u64,
    /// Only in CSV and newline-delimited JSON: hours of the bucket with server data, if the hosts have a drain.
    pub covered_hours: Option<u64>,
}

/// Deserializes null differently from a missing member.
fn even_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<bool>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// An organization's own figures for one bucket, or for one value in it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSeriesItem {
    /// Start of the bucket: a full hour or day in UTC.
    pub start: String,
    pub event_type: Option<String>,
    /// Split by role: `agent`, `edge`, `origin` or `index`.
    pub source_role: Option<String>,
    /// Split by agent: its name; empty if missing.
    pub agent_id: Option<String>,
    /// Whether this is the sum of unlisted values. Then it has no name.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
    /// Split by outcome: `conversion`, `abandonment` or `browse`.
    pub outcome_type: Option<String>,
    /// Split by outcome: the currency of the values.
    pub currency: Option<String>,
    /// Distinct events that the organization reported.
    pub total_events: Option<u64>,
    /// Distinct sessions of these events in this bucket.
    pub total_sessions: Option<u64>,
    /// Without a split, or split by type: distinct events that other organizations reported with its click tokens.
    pub clicks: Option<u64>,
    /// Without a split, or split by outcome: sessions with an outcome.
    pub outcomes: Option<u64>,
    /// Split by outcome: sum of the values in minor units; may exceed 64 bits.
    pub value_amount: Option<u128>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSummary {
    pub organization_id: OrgId,
    /// Distinct events that the organization reported.
    pub total_events: u64,
    /// Distinct sessions of these events; events without a session don't count.
    pub total_sessions: u64,
    pub events_by_type: Vec<TypeCount>,
    /// Events by reported role. An event reported in two roles counts under both.
    pub events_by_source: Vec<SourceCount>,
    /// The organization's own agents, most events first.
    pub agents: Vec<OwnAgentCount>,
    /// Events that other organizations reported with its click tokens.
    pub clicks: Clicks,
    pub outcomes: Outcomes,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnAgentCount {
    /// The agent's name; empty if missing.
    pub agent_id: String,
    pub event_count: u64,
    pub session_count: u64,
    /// Whether this is the sum of unlisted agents, with their distinct sessions. Then it has no name.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

/// Events that other organizations reported with the organization's click tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clicks {
    pub total_events: u64,
    /// Distinct sessions of these events, all owned by the organization.
    pub total_sessions: u64,
    pub events_by_type: Vec<TypeCount>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    pub total: u64,
    /// Adds up to `total`; most frequent first, then by name.
    pub by_type: Vec<OutcomeCount>,
    /// Also adds up to `total`, grouped by currency.
    pub by_currency: Vec<OutcomeValue>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeCount {
    /// `conversion`, `abandonment` or `browse`.
    pub outcome_type: String,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeValue {
    /// Three capital letters.
    pub currency: String,
    pub count: u64,
    /// Sum of the values in minor units; may exceed 64 bits.
    pub value_amount: u128,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serializes_unknown_verified_as_null() {
        for (verified, told) in [(None, "null"), (Some(true), "true"), (Some(false), "false")] {
            let item = SeriesItem { verified: Some(verified), ..SeriesItem::default() };
            let text = serde_json::to_string(&item).unwrap();
            assert!(text.contains(&format!("\"verified\":{told},")), "{text}");
            assert_eq!(serde_json::from_str::<SeriesItem>(&text).unwrap(), item);
        }
        assert!(!serde_json::to_string(&SeriesItem::default()).unwrap().contains("verified"));
    }

    #[test]
    fn values_beyond_64_bits_keep_every_digit() {
        let value = OutcomeValue { currency: "USD".to_owned(), count: 2, value_amount: 2 * (u64::MAX as u128) };
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(text, r#"{"currency":"USD","count":2,"value_amount":36893488147419103230}"#);
        assert_eq!(serde_json::from_str::<OutcomeValue>(&text).unwrap(), value);
    }
}
