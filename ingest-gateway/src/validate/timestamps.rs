//! Reads reports' timestamps: their format, and the earliest and latest accepted times.

use super::{Faults, Member};
use crate::request::limits::EARLIEST_AT_MS;
use crate::request::raw_json::{RawObject, as_str};
use chrono::{DateTime, Utc};
use schemas::instant::{self, TimestampFormat};
use std::time::Duration;

/// Parses RFC 3339 with an offset into milliseconds UTC. Never clamps.
pub(crate) fn instant(
    object: &RawObject<'_>,
    member: Member,
    now: DateTime<Utc>,
    ahead: Duration,
    faults: &mut Faults,
) -> Option<i64> {
    let name = member.0;
    let Some(at_ms) = as_str(object.get(name)?).and_then(|text| instant::parse_millis(&text, TimestampFormat::Report)) else {
        return faults.reject(member, "bad_timestamp", format!("{name} must be an RFC 3339 timestamp with an offset"));
    };
    if at_ms < EARLIEST_AT_MS {
        return faults.reject(member, "too_early", format!("{name} must not be before the year 2000"));
    }
    if at_ms > now.timestamp_millis() + i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX / 2) {
        return faults.reject(
            member,
            "in_the_future",
            format!("{name} must not be more than {} s in the future", ahead.as_secs()),
        );
    }
    Some(at_ms)
}
