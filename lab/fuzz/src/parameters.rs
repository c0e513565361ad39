//! The query string of a read.
//!
//! - Parsing a formatted timestamp returns the same time.
//! - A period is never reversed, and is within the years that a timestamp can represent.
//! - A rejected query string gets 400.

use axum::http::Uri;
use chrono::Datelike;

/// The years 0 to 9999 in milliseconds, plus a day at both ends for the largest offset.
const WRITABLE_MS: std::ops::RangeInclusive<i64> = -62_167_305_600_000..=253_402_387_200_000;

/// Checks the properties. Returns whether the query string is valid and contains a period.
pub fn run(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    check_instant(text);
    let Ok(uri) = format!("/content-owners/summary?{text}").parse::<Uri>() else { return false };
    match query_api::parse_period(&uri) {
        Ok((from, before)) => {
            for at in [from, before].into_iter().flatten() {
                assert!(WRITABLE_MS.contains(&at), "{at} is outside the years of a timestamp");
            }
            assert!(from.zip(before).is_none_or(|(from, before)| from <= before), "a reversed period");
            from.or(before).is_some()
        }
        Err(refused) => {
            assert_eq!(refused.code().status(), 400);
            false
        }
    }
}

fn check_instant(text: &str) {
    let Some(instant) = service_kit::http::parse_instant(text) else { return };
    // An offset can move a time outside of the four-digit years.
    if (0..=9_999).contains(&instant.year()) {
        assert_eq!(service_kit::http::parse_instant(&instant.to_rfc3339()), Some(instant), "a timestamp is parsed back");
    }
}
