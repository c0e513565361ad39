//! Sessions as agents report them: privacy level, outcome, and the facts that go to the log (docs/api/sessions.md#session-members).

use crate::ids::SessionId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

/// Most sessions one session may name as its predecessors.
pub const MAX_PRIOR_SESSIONS: usize = 100;

named_enum! {
    /// What of a conversation may be kept and shown; ordered from the strictest (docs/api/click-tokens.md#members-of-a-manifest).
    pub enum PrivacyLevel {
        /// Nothing derived from the conversation but token counts.
        Minimal = "minimal",
        /// No raw query or response text.
        Intent = "intent",
        Summary = "summary",
        Full = "full",
    }
}

impl PrivacyLevel {
    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// The number that PostgreSQL stores: a stricter level has a lower one.
    pub fn code(self) -> i16 {
        match self {
            Self::Minimal => 0,
            Self::Intent => 1,
            Self::Summary => 2,
            Self::Full => 3,
        }
    }

    /// Reads a stored number. A level that a newer build wrote is not known to be laxer than the strictest.
    pub fn of_code(code: i16) -> Self {
        Self::ALL.into_iter().find(|level| level.code() == code).unwrap_or(Self::Minimal)
    }
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

/// An outcome with its defaults filled in.
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

/// A session that events named, with what their envelope says of it; absent members say nothing.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReport {
    /// The session, of the organisation that reports the events.
    pub session_id: SessionId,
    pub privacy_level: Option<PrivacyLevel>,
    /// The session that delegated work to this one, as its reporter names it.
    pub parent_session_id: Option<String>,
    pub started_at: Option<DateTime<Utc>>,
    /// URL of the participant's manifest, unchecked.
    pub manifest_ref: Option<String>,
    pub agent_id: Option<String>,
}

impl SessionReport {
    /// A report that says nothing but that there is the session.
    pub fn of(session_id: SessionId) -> Self {
        Self { session_id, privacy_level: None, parent_session_id: None, started_at: None, manifest_ref: None, agent_id: None }
    }

    /// Whether it says anything of the session, besides that it exists.
    pub fn says_more(&self) -> bool {
        *self != Self::of(self.session_id)
    }
}

/// What one write says about a session; absent members say nothing.
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
    /// Start, as reported or as the gateway saw it.
    pub started_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    pub outcome: Option<Outcome>,
    /// An object of the members this build does not know, as written.
    pub extra: Option<Box<RawValue>>,
}

impl SessionFacts {
    /// Facts that say nothing but which session it is.
    pub fn of(session_id: SessionId) -> Self {
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
    fn codes_are_ordered_as_levels_are_and_an_unknown_one_is_the_strictest() {
        assert_eq!(PrivacyLevel::ALL.map(PrivacyLevel::code), [0, 1, 2, 3]);
        assert_eq!(PrivacyLevel::ALL.map(|level| PrivacyLevel::of_code(level.code())), PrivacyLevel::ALL);
        for unknown in [-1, 4, i16::MAX] {
            assert_eq!(PrivacyLevel::of_code(unknown), PrivacyLevel::Minimal);
        }
    }
}
