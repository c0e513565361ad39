//! Instants as reporters write them: their spelling, the earliest one, and how far ahead of the clock they may lie.
//!
//! Must never clamp: an instant that cannot be believed is a fault.

use super::{Faults, Member};
use crate::request::limits::EARLIEST_AT_MS;
use crate::request::raw::{RawObject, as_str};
use chrono::{DateTime, FixedOffset, Utc};
use std::borrow::Cow;
use std::time::Duration;

const BETWEEN_DATE_AND_TIME: usize = 10;

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
        faults.add(member, "too_early", format!("{} must not be before the year 2000", member.0));
        return None;
    }
    if at_ms > now.timestamp_millis() + i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX / 2) {
        faults.add(member, "in_the_future", format!("{} must not be more than {} s in the future", member.0, ahead.as_secs()));
        return None;
    }
    Some(at_ms)
}

/// RFC 3339 with an offset, also as real emitters write it: a space for the `T`, an offset without its colon.
pub(crate) fn parse_instant(text: &str) -> Option<DateTime<FixedOffset>> {
    if !matches!(text.as_bytes().get(BETWEEN_DATE_AND_TIME), Some(b'T' | b't' | b' ')) {
        return None;
    }
    let minutes = text.len().checked_sub(2).filter(|_| has_bare_offset(text));
    let spelled = minutes.map_or(Cow::Borrowed(text), |at| Cow::Owned(format!("{}:{}", &text[..at], &text[at..])));
    DateTime::parse_from_rfc3339(&spelled).ok()
}

/// RFC 3339 to the letter, as the public schemas mean it. chrono also reads a space between date and time, which RFC 3339
/// leaves to agreement.
pub(crate) fn parse_rfc_3339(text: &str) -> Option<DateTime<FixedOffset>> {
    matches!(text.as_bytes().get(BETWEEN_DATE_AND_TIME), Some(b'T' | b't')).then(|| DateTime::parse_from_rfc3339(text).ok())?
}

/// Whether it ends as `+0000` does; the date before it has its own hyphens.
fn has_bare_offset(text: &str) -> bool {
    let offset = text.len().checked_sub(5).filter(|at| *at > BETWEEN_DATE_AND_TIME).and_then(|at| text.as_bytes().get(at..));
    offset.is_some_and(|offset| matches!(offset[0], b'+' | b'-') && offset[1..].iter().all(u8::is_ascii_digit))
}
