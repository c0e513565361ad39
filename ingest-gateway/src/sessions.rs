//! `POST /sessions/start`, `/sessions/end` and `/sessions/bulk`: one file per endpoint.
//!
//! Must not let anybody touch a session of another organisation: every statement carries the caller's.

mod bulk;
mod change;
mod end;
mod envelope;
mod envelope_spill;
mod envelope_writer;
mod expiry;
mod facts;
mod memory;
mod start;
mod store;

pub(crate) use bulk::{read_session, unnamed_session, upload_session};
pub(crate) use end::{end_session, read_end};
pub(crate) use envelope::{EnvelopeReport, Session, SessionState};
pub(crate) use envelope_writer::EnvelopeWriter;
pub use expiry::SessionExpiry;
pub(crate) use expiry::start as start_expiry;
pub(crate) use facts::privacy_level;
pub(crate) use memory::{NeededFacts, SessionMemory};
pub(crate) use start::{read_start, start_session};
pub(crate) use store::exists as session_exists;

use schemas::event_key::{EventKey, Identity};
use schemas::ids::SessionId;

/// An id of ours that a retry gets again.
fn assigned_id(identity: &Identity<'_>) -> SessionId {
    let EventKey(bits) = EventKey::of(identity);
    SessionId(uuid::Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid())
}
