//! The log: topic names and the record that one accepted request becomes (design.md, "The log").
//!
//! Must stay readable for old records: a replay reads what was written years ago. Add optional members; change
//! [`RECORD_VERSION`] when an old reader would misread a new record.

use crate::event::SourceRole;
use crate::event_key::EventKey;
use crate::ids::{OrgId, SessionId};
use crate::session::SessionFacts;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Accepted write requests.
pub const TELEMETRY_TOPIC: &str = "telemetry.v1";
/// Records no worker could decode, as they were.
pub const REJECTED_TOPIC: &str = "telemetry.rejected.v1";
/// The version this build writes.
pub const RECORD_VERSION: u16 = 1;
/// Largest record the topics must take: an inflated request of 4 MiB with what normalising adds.
pub const MAX_RECORD_BYTES: usize = 8 * 1024 * 1024;

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
    /// [`RECORD_VERSION`] of its writer.
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
    /// The answering agent, as its reporter names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
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
