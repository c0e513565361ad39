//! Reads members as a required type. An invalid value adds a fault and counts as absent.

use super::old_names::OLD_TELEMETRY_ID;
use super::{Faults, Member};
use crate::privacy::TURN;
use crate::request::limits::MAX_DATA_LEVELS;
use crate::request::raw_json::{RawObject, as_str, depth};
use schemas::event::MAX_STRING_BYTES;
use schemas::event_key::canonical_id;
use schemas::ids::SessionId;
use schemas::site::ContentUrl;
use serde_json::value::RawValue;
use uuid::Uuid;

/// Known members of an event. Others are stored as written.
pub(crate) const KNOWN: &[&str] = &[
    "id",
    "type",
    "timestamp",
    "source_role",
    "content_url",
    "content_id",
    "content_telemetry_id",
    OLD_TELEMETRY_ID,
    "session_id",
    "ctx_token",
    "turn_id",
    "output_id",
    "data",
    TURN,
];

/// A non-empty text of at most [`MAX_STRING_BYTES`].
pub(crate) fn text(value: Option<&RawValue>, member: Member, faults: &mut Faults) -> Option<String> {
    let name = member.0;
    let Some(text) = as_str(value?) else { return faults.reject(member, "wrong_type", format!("{name} must be a string")) };
    if text.is_empty() {
        return faults.reject(member, "empty", format!("{name} must not be empty"));
    }
    if text.len() > MAX_STRING_BYTES {
        return faults.reject(member, "too_long", format!("{name} must have at most {MAX_STRING_BYTES} bytes"));
    }
    Some(text.into_owned())
}

/// Returns a value that `read` accepts. `detail` lists the accepted values.
pub(crate) fn known<T>(
    value: Option<&RawValue>,
    member: Member,
    read: impl FnOnce(&str) -> Option<T>,
    detail: &str,
    faults: &mut Faults,
) -> Option<T> {
    as_str(value?).and_then(|text| read(&text)).or_else(|| faults.reject(member, "unknown_value", detail))
}

/// Returns an id. Different spellings of a UUID are the same id.
pub(crate) fn id(value: Option<&RawValue>, member: Member, faults: &mut Faults) -> Option<String> {
    text(value, member, faults).map(|id| canonical_id(&id))
}

pub(crate) fn session(value: Option<&RawValue>, member: Member, faults: &mut Faults) -> Option<SessionId> {
    let given = text(value, member, faults)?;
    match Uuid::try_parse(&given) {
        Ok(session) if !session.is_nil() => Some(SessionId(session)),
        _ => faults.reject(member, "bad_uuid", format!("{} must be a UUID", member.0)),
    }
}

pub(crate) fn url(value: Option<&RawValue>, member: Member, faults: &mut Faults) -> Option<ContentUrl> {
    let name = member.0;
    let Some(text) = as_str(value?) else { return faults.reject(member, "wrong_type", format!("{name} must be a string")) };
    ContentUrl::parse(&text).map_or_else(|error| faults.reject(member, "bad_url", format!("{name}: {error}")), Some)
}

/// Returns an object within the size and depth limits.
pub(crate) fn object<'a>(object: &RawObject<'a>, member: Member, max_bytes: usize, faults: &mut Faults) -> Option<&'a RawValue> {
    let name = member.0;
    let value = object.get(name)?;
    if !value.get().starts_with('{') {
        return faults.reject(member, "wrong_type", format!("{name} must be an object"));
    }
    if value.get().len() > max_bytes {
        return faults.reject(member, "too_large", format!("{name} must have at most {max_bytes} bytes"));
    }
    if depth(value.get()) > MAX_DATA_LEVELS {
        return faults.reject(member, "too_deep", format!("{name} must have at most {MAX_DATA_LEVELS} levels of nesting"));
    }
    Some(value)
}

/// Returns whether unknown members are within the limits of `data`: total size, and depth of each.
pub(crate) fn check_unknown(
    object: &RawObject<'_>,
    known: &[&str],
    member: Member,
    max_bytes: usize,
    faults: &mut Faults,
) -> bool {
    let unknown = || object.members().filter(|(name, _)| !known.contains(name));
    let bytes: usize = unknown().map(|(name, value)| name.len() + value.get().len()).sum();
    if bytes > max_bytes {
        faults.add(member, "too_large", format!("unknown members must have at most {max_bytes} bytes in total"));
        return false;
    }
    let is_too_deep = unknown().any(|(_, value)| depth(value.get()) > MAX_DATA_LEVELS);
    if is_too_deep {
        faults.add(member, "too_deep", format!("unknown members must have at most {MAX_DATA_LEVELS} levels of nesting"));
    }
    !is_too_deep
}
