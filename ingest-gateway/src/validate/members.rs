//! Reading one member as the type it must have; what does not fit becomes a fault and reads as absent.
//!
//! Must not know any rule between members.

use super::{Faults, Member};
use crate::limits::EARLIEST_AT_MS;
use crate::raw::{RawObject, as_str, depth};
use chrono::{DateTime, FixedOffset, Utc};
use schemas::event::MAX_STRING_BYTES;
use schemas::event_key::canonical_id;
use schemas::ids::SessionId;
use schemas::site::ContentUrl;
use serde_json::value::RawValue;
use std::time::Duration;
use uuid::Uuid;

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
        faults.add(member, "too_long", format!("{} is longer than {MAX_STRING_BYTES} bytes", member.0));
        return None;
    }
    Some(text.into_owned())
}

/// An id; the spellings of a UUID are one.
pub(crate) fn id(value: Option<&RawValue>, member: Member, faults: &mut Faults) -> Option<String> {
    text(value, member, faults).map(|id| canonical_id(&id))
}

/// A session's UUID.
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

/// RFC 3339 with an offset, as milliseconds UTC; never clamped.
pub(crate) fn instant(
    object: &RawObject<'_>,
    member: Member,
    now: DateTime<Utc>,
    ahead: Duration,
    faults: &mut Faults,
) -> Option<i64> {
    let value = object.get(member.0)?;
    let parsed = as_str(value).and_then(|text| parse_instant(&text));
    let Some(parsed) = parsed else {
        faults.add(member, "bad_timestamp", format!("{} must be an RFC 3339 instant with an offset", member.0));
        return None;
    };
    let at_ms = parsed.timestamp_millis();
    if at_ms < EARLIEST_AT_MS {
        faults.add(member, "too_early", format!("{} lies before the year 2000", member.0));
        return None;
    }
    if at_ms > now.timestamp_millis() + i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX / 2) {
        faults.add(member, "in_the_future", format!("{} lies more than {} s in the future", member.0, ahead.as_secs()));
        return None;
    }
    Some(at_ms)
}

/// RFC 3339 with an offset. chrono also reads a space between date and time, which RFC 3339 leaves to agreement.
pub(crate) fn parse_instant(text: &str) -> Option<DateTime<FixedOffset>> {
    matches!(text.as_bytes().get(10), Some(b'T' | b't')).then(|| DateTime::parse_from_rfc3339(text).ok())?
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
        faults.add(member, "too_large", format!("{} is larger than {max_bytes} bytes", member.0));
        return None;
    }
    if depth(value) > max_levels {
        faults.add(member, "too_deep", format!("{} nests deeper than {max_levels} levels", member.0));
        return None;
    }
    Some(value)
}
