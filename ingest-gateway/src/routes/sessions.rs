//! `POST /sessions/start`, `/sessions/end` and `/sessions/bulk`, one file per endpoint.

pub(crate) mod start;
pub(crate) mod end;
pub(crate) mod bulk;

use schemas::event_key::{EventKey, OwnId};
use schemas::ids::SessionId;

/// Derives a session id that is the same for a retry.
fn assigned_id(id: &OwnId<'_>) -> SessionId {
    let EventKey(bits) = EventKey::own(id);
    SessionId(uuid::Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid())
}
