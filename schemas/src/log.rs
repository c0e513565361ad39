//! The log: topic names and the record that one accepted request becomes (design.md, "The log").
//!
//! Must stay readable for old records: a replay reads what was written years ago. Add optional members; change
//! [`RECORD_VERSION`] when an old reader would misread a new record.

use crate::event::SourceRole;
use crate::event_key::EventKey;
use crate::ids::{OrgId, SessionId};
use crate::secrets::SecretHash;
use crate::session::SessionFacts;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Accepted write requests.
pub const TELEMETRY_TOPIC: &str = "telemetry.v1";
/// Records no worker could decode, as they were.
pub const REJECTED_TOPIC: &str = "telemetry.rejected.v1";
/// The version this build writes, but for [`UNRESOLVED_VERSION`] and [`NAMELESS_VERSION`].
pub const RECORD_VERSION: u16 = 1;
/// The version of a record that has a click token left to look up. A worker from before would take no notice of the token
/// and store its event without a session: it must refuse such a record.
pub const UNRESOLVED_VERSION: u16 = 2;
/// The version of a record that has an agent left to look up, and the newest this build reads: a worker from before would
/// store its event without an agent.
pub const NAMELESS_VERSION: u16 = 3;
/// Largest record the topics must take: an inflated request of 4 MiB with what normalising adds.
pub const MAX_RECORD_BYTES: usize = 8 * 1024 * 1024;

/// What a dead letter takes besides its record: headers and framing.
pub const MAX_LETTER_HEAD_BYTES: usize = 16 * 1024;

/// Header names.
pub mod header {
    /// `telemetry.v1/<record version>`.
    pub const SCHEMA: &str = "schema";
    /// The reporting organisation.
    pub const ORG: &str = "org";
    /// The request id of the write.
    pub const REQUEST_ID: &str = "request-id";
    /// On a dead letter: why it could not be decoded.
    pub const REASON: &str = "reason";
    /// On a dead letter: `topic/partition/offset` of the original.
    pub const ORIGIN: &str = "origin";
    /// On the note that a dead letter was put back: `topic/partition/offset` of the copy. The note repeats its origin.
    pub const RETRIED: &str = "retried";
}

/// What kind of write a record came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKind {
    /// `POST /events`.
    Events,
    /// `POST /sessions/start`.
    SessionStarted,
    /// `POST /sessions/end`.
    SessionEnded,
    /// `POST /sessions/bulk`.
    Session,
}

/// One accepted request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogRecord {
    /// What a reader must understand: [`RECORD_VERSION`], [`UNRESOLVED_VERSION`] or [`NAMELESS_VERSION`].
    pub v: u16,
    /// Who reported it.
    pub org: OrgId,
    /// When the gateway accepted it, in microseconds UTC; decides which of two repeats is the first.
    pub received_at_us: i64,
    /// Which write it was.
    pub kind: RecordKind,
    /// What the write says about a session, when it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionFacts>,
    /// Normalised, keyed and stripped of what must not be kept.
    #[serde(default)]
    pub events: Vec<LogEvent>,
}

impl LogRecord {
    /// The version that a record of these events must say.
    pub fn version_of(events: &[LogEvent]) -> u16 {
        let version = |event: &LogEvent| match event {
            event if event.is_nameless => NAMELESS_VERSION,
            event if event.is_unresolved() => UNRESOLVED_VERSION,
            _ => RECORD_VERSION,
        };
        events.iter().map(version).max().unwrap_or(RECORD_VERSION)
    }

    /// Whether a click token or an agent is left for the worker to look up.
    pub fn is_unresolved(&self) -> bool {
        self.events.iter().any(|event| event.is_unresolved() || event.is_nameless)
    }
}

/// One normalised event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogEvent {
    /// Identity for counting.
    pub key: EventKey,
    /// Whether observers merge on `key` (a retrieval with a correlation id).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub correlated: bool,
    /// The reporter's own id, canonical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Type name.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it happened, in milliseconds UTC.
    pub at_ms: i64,
    /// Who observed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_role: Option<SourceRole>,
    /// Reversed host; empty when nobody can own it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
    /// Canonical URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_url: Option<String>,
    /// Stable content identifier, as reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
    /// Correlation id, canonical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_telemetry_id: Option<String>,
    /// The session it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Whose session it is, when it is not the reporter's: the organisation that issued the click token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_org: Option<OrgId>,
    /// The hash of a click token that the gateway could not look up; the worker does, as of `received_at_us`. A
    /// `session_id` beside it is what the reporter says, and must turn out to be the token's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ctx_hash: Option<SecretHash>,
    /// The answering agent, as its reporter names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Which agent answers in its session could not be asked when it was accepted; the worker asks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_nameless: bool,
    /// Conversation turn reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Output reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    /// The type-specific object, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// An object of the members this build does not know, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Box<RawValue>>,
}

impl LogEvent {
    /// Whether its session stands behind a click token that is not looked up yet.
    pub fn is_unresolved(&self) -> bool {
        self.ctx_hash.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::PlainClickToken;

    const OLD: &str = r#"{"v":1,"org":"00000000-0000-0000-0000-000000000001","received_at_us":1790000000000000,"kind":"events",
        "events":[{"key":"0000000000000000000000000000000a","type":"content_engaged","at_ms":1790000000000}]}"#;

    #[test]
    fn a_record_from_before_click_tokens_were_left_to_the_worker_is_read() {
        let record: LogRecord = serde_json::from_str(OLD).unwrap();
        assert!(!record.is_unresolved());
        assert_eq!(LogRecord::version_of(&record.events), 1, "and one like it is readable by a worker from before");
        let written = serde_json::to_string(&record).unwrap();
        assert!(!written.contains("ctx_hash") && !written.contains("is_nameless"), "{written}");
    }

    #[test]
    fn an_unresolved_token_is_a_hash_and_makes_the_record_unreadable_to_a_worker_from_before() {
        let mut record: LogRecord = serde_json::from_str(OLD).unwrap();
        record.events[0].ctx_hash = Some(PlainClickToken::presented("ctx_secret").hash());
        assert_eq!(LogRecord::version_of(&record.events), 2);
        record.events[0].is_nameless = true;
        assert_eq!((LogRecord::version_of(&record.events), record.is_unresolved()), (3, true));
        record.events[0].is_nameless = false;
        let written = serde_json::to_string(&record).unwrap();
        // SHA-256 of `ctx_secret`.
        assert!(
            written.contains(r#""ctx_hash":"35cd9e19021627ec4370175f47eb4d73385c2770a7eda01f351817fccc0eae4f""#),
            "{written}"
        );
        let read: LogRecord = serde_json::from_str(&written).unwrap();
        assert!(read.events[0].ctx_hash == record.events[0].ctx_hash);
        for bad in ["", "00", &"g".repeat(64), &"0".repeat(66), &"é".repeat(32)] {
            let forged = written.replace("35cd9e19021627ec4370175f47eb4d73385c2770a7eda01f351817fccc0eae4f", bad);
            assert!(serde_json::from_str::<LogRecord>(&forged).is_err(), "{bad}");
        }
    }
}
