//! Agent sessions: privacy level, outcome, and the facts that are written to the log (docs/api/sessions.md#session-members).

use crate::ids::SessionId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

pub const MAX_PRIOR_SESSIONS: usize = 100;

named_enum! {
    /// How much of a conversation may be stored and shown, strictest first (docs/api/click-tokens.md#members-of-a-manifest).
    pub enum PrivacyLevel {
        /// Only token counts.
        Minimal = "minimal",
        /// No query or response text.
        Intent = "intent",
        Summary = "summary",
        Full = "full",
    }
}

impl PrivacyLevel {
    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Returns the number stored in PostgreSQL. Stricter levels have lower numbers.
    pub fn code(self) -> i16 {
        match self {
            Self::Minimal => 0,
            Self::Intent => 1,
            Self::Summary => 2,
            Self::Full => 3,
        }
    }

    /// Returns the level for a stored number. Unknown numbers from a newer build count as the strictest level.
    pub fn from_code(code: i16) -> Self {
        Self::ALL.into_iter().find(|level| level.code() == code).unwrap_or(Self::Minimal)
    }
}

/// Members of a conversation turn, by the strictest level that permits them (docs/api/events.md#privacy-at-acceptance).
pub mod conversation {
    pub const LEVEL: &str = "privacy_level";
    pub const AT_MINIMAL: &[&str] = &[LEVEL, "query_tokens", "response_tokens", "content_urls_retrieved", "content_urls_cited"];
    pub const AT_INTENT: &[&str] = &["query_intent", "topics", "response_type", "response_mode", "model_id", "ad_rendered"];
    pub const AT_SUMMARY: &[&str] = &["query_text", "response_text"];
}

named_enum! {
    /// How a session ended (docs/api/sessions.md#outcome).
    pub enum OutcomeType {
        /// The user bought or signed up.
        Conversion = "conversion",
        Abandonment = "abandonment",
        Browse = "browse",
    }
}

impl OutcomeType {
    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(rename = "type")]
    pub outcome_type: OutcomeType,
    /// Minor currency units, at least 0.
    pub value_amount: i64,
    /// Three upper-case letters.
    pub currency: String,
    /// Every other member, as written (`products`, `metadata`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Box<RawValue>>,
}

/// A session that events name, with facts from their envelope. Absent members are unknown.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReport {
    /// The session, which belongs to the organization that reports the events.
    pub session_id: SessionId,
    pub privacy_level: Option<PrivacyLevel>,
    /// The session that delegated work to this one, as reported.
    pub parent_session_id: Option<String>,
    pub started_at: Option<DateTime<Utc>>,
    /// URL of the participant's manifest, unchecked.
    pub manifest_ref: Option<String>,
    pub agent_id: Option<String>,
}

impl SessionReport {
    /// Creates a report with only the session's id.
    pub fn new(session_id: SessionId) -> Self {
        Self { session_id, privacy_level: None, parent_session_id: None, started_at: None, manifest_ref: None, agent_id: None }
    }

    /// Returns whether it contains facts besides the session's id.
    pub fn has_facts(&self) -> bool {
        *self != Self::new(self.session_id)
    }
}

/// The facts of one write about a session. Absent members are unknown.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionFacts {
    pub session_id: SessionId,
    /// `user` or `agent`.
    pub initiator_type: Option<String>,
    pub agent_id: Option<String>,
    pub manifest_ref: Option<String>,
    pub content_scope: Option<String>,
    pub external_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prior_session_ids: Vec<SessionId>,
    pub privacy_level: Option<PrivacyLevel>,
    /// Start as reported, or else as observed by the gateway.
    pub started_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    pub outcome: Option<Outcome>,
    /// An object of unknown members, as written.
    pub extra: Option<Box<RawValue>>,
}

impl SessionFacts {
    /// Creates facts with only the session's id.
    pub fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            initiator_type: None,
            agent_id: None,
            manifest_ref: None,
            content_scope: None,
            external_session_id: None,
            prior_session_ids: Vec::new(),
            privacy_level: None,
            started_at: None,
            ended_at: None,
            outcome: None,
            extra: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_ordered_like_levels() {
        assert_eq!(PrivacyLevel::ALL.map(PrivacyLevel::code), [0, 1, 2, 3]);
        assert_eq!(PrivacyLevel::ALL.map(|level| PrivacyLevel::from_code(level.code())), PrivacyLevel::ALL);
        for unknown in [-1, 4, i16::MAX] {
            assert_eq!(PrivacyLevel::from_code(unknown), PrivacyLevel::Minimal);
        }
    }
}
