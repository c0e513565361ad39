//! Reading one member as the type it must have; what does not fit becomes a fault and reads as absent.

use super::aliases::OLD_TELEMETRY_ID;
use super::{Faults, Member};
use crate::privacy::TURN;
use crate::request::limits::MAX_DATA_LEVELS;
use crate::request::raw::{RawObject, as_str, depth};
use schemas::event::MAX_STRING_BYTES;
use schemas::event_key::canonical_id;
use schemas::ids::SessionId;
use schemas::site::ContentUrl;
use serde_json::value::RawValue;
use uuid::Uuid;

/// Members this build knows on an event; every other one is kept as written.
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
    let Some(text) = as_str(value?) else {
        faults.add(member, "wrong_type", format!("{} must be a string", member.0));
        return None;
    };
    if text.is_empty() {
        faults.add(member, "empty", format!("{} must not be empty", member.0));
        return None;
    }
    if text.len() > MAX_STRING_BYTES {
        faults.add(member, "too_long", format!("{} must have at most {MAX_STRING_BYTES} bytes", member.0));
        return None;
    }
    Some(text.into_owned())
}

/// An id; the spellings of a UUID are one.
pub(crate) fn id(value: Option<&RawValue>, member: Member, faults: &mut Faults) -> Option<String> {
    text(value, member, faults).map(|id| canonical_id(&id))
}

pub(crate) fn session(value: Option<&RawValue>, member: Member, faults: &mut Faults) -> Option<SessionId> {
    let given = text(value, member, faults)?;
    match Uuid::try_parse(&given) {
        Ok(session) if !session.is_nil() => Some(SessionId(session)),
        _ => {
            faults.add(member, "bad_uuid", format!("{} must be a UUID", member.0));
            None
        }
    }
}

/// An http or https URL, canonical.
pub(crate) fn url(value: Option<&RawValue>, member: Member, faults: &mut Faults) -> Option<ContentUrl> {
    let Some(text) = as_str(value?) else {
        faults.add(member, "wrong_type", format!("{} must be a string", member.0));
        return None;
    };
    match ContentUrl::parse(&text) {
        Ok(url) => Some(url),
        Err(error) => {
            faults.add(member, "bad_url", format!("{}: {error}", member.0));
            None
        }
    }
}

/// An object within the limits of size and depth.
pub(crate) fn object<'a>(
    object: &RawObject<'a>,
    member: Member,
    max_bytes: usize,
    max_levels: usize,
    faults: &mut Faults,
) -> Option<&'a RawValue> {
    let value = object.get(member.0)?;
    if !value.get().starts_with('{') {
        faults.add(member, "wrong_type", format!("{} must be an object", member.0));
        return None;
    }
    if value.get().len() > max_bytes {
        faults.add(member, "too_large", format!("{} must have at most {max_bytes} bytes", member.0));
        return None;
    }
    if depth(value.get()) > max_levels {
        faults.add(member, "too_deep", format!("{} must have at most {max_levels} levels of nesting", member.0));
        return None;
    }
    Some(value)
}

/// Whether the members that this build does not know keep the limits of `data`, each of depth, all together of size.
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
