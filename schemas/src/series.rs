//! What the reads over time answer, and what an organisation's own figures are (docs/api/reads.md#get-content-ownersseries).

use crate::coverage::Coverage;
use crate::ids::OrgId;
use crate::reads::{SourceCount, TypeCount};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with_macros::skip_serializing_none;
use std::ops::Not;

/// `GET /content-owners/series`, and with another item `GET /agent/series`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series<T> {
    /// Whose telemetry it is; the grantor's id on a delegated read.
    pub organization_id: OrgId,
    /// The domains the figures cover, sorted; of an organisation's own figures there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<Vec<String>>,
    pub by: String,
    /// What a bucket is split by, or `none`.
    pub split: String,
    /// Whether every value has an item in every bucket; otherwise what has no item is zero.
    pub filled: bool,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
    /// The hours of which servers tell, where the hosts have a drain; of an organisation's own figures there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    pub total: u64,
    pub items: Vec<T>,
}

/// The figures of one bucket, or of one value in it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesItem {
    /// When the bucket begins: a whole hour or day of UTC.
    pub start: String,
    /// Split by type: its name.
    pub event_type: Option<String>,
    /// Split by role: `agent`, `edge`, `origin` or `index`.
    pub source_role: Option<String>,
    /// Split by agent or platform: the reporting organisation.
    pub platform_id: Option<String>,
    /// Split by agent: as the reporter names it; empty when it names none.
    pub agent_id: Option<String>,
    /// Split by operator: whose bot fetched; empty where no server names one.
    pub operator: Option<String>,
    /// Split by bot: its name; empty where no server names one.
    pub bot: Option<String>,
    /// Split by purpose: `training`, `search` or `user`; empty where no server names a bot.
    pub purpose: Option<String>,
    /// Split by verified: whether the bot asked from an address of its operator; null where that is not known.
    #[serde(default, deserialize_with = "even_null")]
    pub verified: Option<Option<bool>>,
    /// Split by status: HTTP status; 0 where it is not known, and for failed fetches if the request wasn't answered.
    pub status: Option<u16>,
    /// Split by outcome: `fetch`, `revalidation` or `failed`; empty for events other than fetches.
    pub outcome: Option<String>,
    /// Whether it is the sum of the values that are not listed; then it has no name.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
    /// Events, each in the bucket of its time.
    pub total_events: u64,
    /// Distinct sessions of this bucket: a session that lasts is in several.
    pub total_sessions: u64,
}

/// A member that is there and null is not one that is missing.
fn even_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<bool>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// The own figures of one bucket, or of one value in it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSeriesItem {
    /// When the bucket begins: a whole hour or day of UTC.
    pub start: String,
    /// Split by type: its name.
    pub event_type: Option<String>,
    /// Split by role: `agent`, `edge`, `origin` or `index`.
    pub source_role: Option<String>,
    /// Split by agent: as it was named; empty when it was not.
    pub agent_id: Option<String>,
    /// Whether it is the sum of the values that are not listed; then it has no name.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
    /// Split by outcome: `conversion`, `abandonment` or `browse`.
    pub outcome_type: Option<String>,
    /// Split by outcome: the currency of its value.
    pub currency: Option<String>,
    /// Distinct events that the organisation reported itself.
    pub total_events: Option<u64>,
    /// Distinct sessions of these events in this bucket.
    pub total_sessions: Option<u64>,
    /// Not split, or split by type: distinct events that others bound by the organisation's click tokens.
    pub clicks: Option<u64>,
    /// Not split, or split by outcome: sessions with an outcome.
    pub outcomes: Option<u64>,
    /// Split by outcome: the sum of their values in minor units; may exceed 64 bits.
    pub value_amount: Option<u128>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSummary {
    pub organization_id: OrgId,
    /// Distinct events that the organisation reported itself.
    pub total_events: u64,
    /// Distinct sessions of these events; an absent session is none.
    pub total_sessions: u64,
    pub events_by_type: Vec<TypeCount>,
    /// What was reported in each role; an event reported in two counts under both.
    pub events_by_source: Vec<SourceCount>,
    /// By the organisation's own agents, most events first.
    pub agents: Vec<OwnAgentCount>,
    /// What others did with its click tokens.
    pub clicks: Clicks,
    pub outcomes: Outcomes,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnAgentCount {
    /// As it was named; empty when it was not.
    pub agent_id: String,
    pub event_count: u64,
    pub session_count: u64,
    /// Whether it is the sum of the agents that are not listed, with their distinct sessions; then it has no name.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

/// Events that others bound by the organisation's click tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clicks {
    pub total_events: u64,
    /// Distinct sessions of the organisation that they belong to.
    pub total_sessions: u64,
    pub events_by_type: Vec<TypeCount>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    pub total: u64,
    /// Adds up to `total`; most frequent first, then by name.
    pub by_type: Vec<OutcomeCount>,
    /// Adds up to `total` too; by currency.
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
    /// The sum of their values in minor units; may exceed 64 bits.
    pub value_amount: u128,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_by_verified_says_that_it_is_not_known() {
        for (verified, told) in [(None, "null"), (Some(true), "true"), (Some(false), "false")] {
            let item = SeriesItem { verified: Some(verified), ..SeriesItem::default() };
            let text = serde_json::to_string(&item).unwrap();
            assert!(text.contains(&format!("\"verified\":{told},")), "{text}");
            assert_eq!(serde_json::from_str::<SeriesItem>(&text).unwrap(), item);
        }
        assert!(!serde_json::to_string(&SeriesItem::default()).unwrap().contains("verified"));
    }

    #[test]
    fn a_value_of_more_than_64_bits_is_written_to_the_last_digit() {
        let value = OutcomeValue { currency: "USD".to_owned(), count: 2, value_amount: 2 * (u64::MAX as u128) };
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(text, r#"{"currency":"USD","count":2,"value_amount":36893488147419103230}"#);
        assert_eq!(serde_json::from_str::<OutcomeValue>(&text).unwrap(), value);
    }
}
