//! What the envelope of events says of their session, beside its id and its privacy level: many emitters say it nowhere else.
//!
//! Must not refuse anything: what is no instant or too long is not kept, and the events are taken as before.

use super::timestamps::parse_instant;
use crate::privacy::redact::without_click_tokens;
use crate::request::raw::{RawObject, as_str};
use chrono::{DateTime, Utc};
use schemas::event::MAX_STRING_BYTES;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Facts of a session that stand around its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EnvelopeFacts {
    /// The session that delegated work to this one.
    pub(crate) parent: Option<String>,
    /// When it began.
    pub(crate) started_at: Option<DateTime<Utc>>,
    /// The participant's manifest.
    pub(crate) manifest_ref: Option<String>,
    /// Who answers in it. Absent in what processes of before have kept on disk.
    #[serde(default)]
    pub(crate) agent: Option<String>,
}

impl EnvelopeFacts {
    /// What the envelope says.
    pub(crate) fn by(envelope: &RawObject<'_>) -> Self {
        let text = |name: &str| {
            let text = as_str(envelope.get(name)?).filter(|text| !text.is_empty() && text.len() <= MAX_STRING_BYTES)?;
            Some(without_click_tokens(text.into_owned()))
        };
        Self {
            parent: text("parent_session_id"),
            started_at: text("started_at").and_then(|text| parse_instant(&text)).map(|at| at.to_utc()),
            manifest_ref: text("manifest_ref"),
            agent: text("agent_id"),
        }
    }

    /// Whether it says anything.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A name for it that is short however long it is; none when it says nothing.
    pub(crate) fn fingerprint(&self) -> Option<[u8; 16]> {
        if self.is_empty() {
            return None;
        }
        let mut digest = Sha256::new();
        let start = self.started_at.map(|at| at.timestamp_micros().to_string());
        for text in [&self.parent, &self.manifest_ref, &start, &self.agent] {
            digest.update([u8::from(text.is_some())]);
            digest.update(text.as_ref().map_or(0, String::len).to_be_bytes());
            digest.update(text.as_deref().unwrap_or_default());
        }
        let bytes: [u8; 32] = digest.finalize().into();
        bytes.first_chunk().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(envelope: &Value) -> EnvelopeFacts {
        EnvelopeFacts::by(&RawObject::parse(&envelope.to_string()).unwrap())
    }

    #[test]
    fn what_is_no_text_no_instant_or_too_long_says_nothing() {
        for value in [json!(7), json!({}), json!(""), json!(null), json!("x".repeat(MAX_STRING_BYTES + 1))] {
            let told = told(&json!({"parent_session_id": value, "manifest_ref": value, "started_at": value, "agent_id": value}));
            assert!(told.is_empty() && told.fingerprint().is_none(), "{value:.60}");
        }
        assert!(told(&json!({"started_at": "2026-08-01 16:00:00"})).is_empty());
        assert!(told(&json!({"session_id": "x", "privacy_level": "full"})).is_empty());
    }

    #[test]
    fn whatever_differs_has_another_fingerprint() {
        let all = [
            json!({"parent_session_id": "a"}),
            json!({"manifest_ref": "a"}),
            json!({"agent_id": "a"}),
            json!({"parent_session_id": "a", "manifest_ref": "a"}),
            json!({"started_at": "2026-08-01T16:00:00Z"}),
            json!({"started_at": "2026-08-01T16:00:00.000001Z"}),
        ];
        let names: std::collections::HashSet<_> = all.iter().map(|envelope| told(envelope).fingerprint().unwrap()).collect();
        assert_eq!(names.len(), all.len());
        assert_eq!(
            told(&json!({"started_at": "2026-08-01T18:00:00+02:00"})).fingerprint(),
            told(&all[4]).fingerprint(),
            "an instant is one however it is written"
        );
    }
}
