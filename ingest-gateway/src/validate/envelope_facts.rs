//! The envelope's facts about its events' session, besides its id and privacy level. Many emitters send them only there.

use crate::privacy::redact_click_tokens::without_click_tokens;
use crate::request::raw_json::{RawObject, as_str};
use chrono::{DateTime, Utc};
use schemas::event::MAX_STRING_BYTES;
use schemas::instant::{self, TimestampFormat};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnvelopeFacts {
    /// The session that delegated work to this one.
    pub(crate) parent: Option<String>,
    pub(crate) started_at: Option<DateTime<Utc>>,
    pub(crate) manifest_ref: Option<String>,
    pub(crate) agent: Option<String>,
}

impl EnvelopeFacts {
    pub(crate) fn from_envelope(envelope: &RawObject<'_>) -> Self {
        let text = |name: &str| {
            let text = as_str(envelope.get(name)?).filter(|text| !text.is_empty() && text.len() <= MAX_STRING_BYTES)?;
            Some(without_click_tokens(text.into_owned()))
        };
        Self {
            parent: text("parent_session_id"),
            started_at: text("started_at")
                .and_then(|text| instant::parse_millis(&text, TimestampFormat::Report))
                .and_then(DateTime::from_timestamp_millis),
            manifest_ref: text("manifest_ref"),
            agent: text("agent_id"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(envelope: &Value) -> EnvelopeFacts {
        EnvelopeFacts::from_envelope(&RawObject::parse(&envelope.to_string()).unwrap())
    }

    #[test]
    fn ignores_invalid_envelope_facts() {
        for value in [json!(7), json!({}), json!(""), json!(null), json!("x".repeat(MAX_STRING_BYTES + 1))] {
            let parsed =
                parse(&json!({"parent_session_id": value, "manifest_ref": value, "started_at": value, "agent_id": value}));
            assert_eq!(parsed, EnvelopeFacts::default(), "{value:.60}");
        }
        assert_eq!(parse(&json!({"started_at": "2026-08-01 16:00:00"})), EnvelopeFacts::default());
        assert_eq!(parse(&json!({"session_id": "x", "privacy_level": "full"})), EnvelopeFacts::default());
    }
}
