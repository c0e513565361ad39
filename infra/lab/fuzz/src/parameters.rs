//! The query string of a read.
//!
//! - An instant is read back as itself.
//! - A window is never reversed, and lies in the years that a timestamp can name.
//! - What is refused is the caller's fault.

use axum::http::Uri;
use chrono::Datelike;

/// The years 0 to 9999 in milliseconds, with a day for the largest offset at either end.
const WRITABLE_MS: std::ops::RangeInclusive<i64> = -62_167_305_600_000..=253_402_387_200_000;

/// Checks the laws; whether the query string is understood and asks for a window.
pub fn enter(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    check_instant(text);
    let Ok(uri) = format!("/content-owners/summary?{text}").parse::<Uri>() else { return false };
    match query_api::parse_period(&uri) {
        Ok((from, before)) => {
            for at in [from, before].into_iter().flatten() {
                assert!(WRITABLE_MS.contains(&at), "{at} is no time a timestamp can name");
            }
            assert!(from.zip(before).is_none_or(|(from, before)| from <= before), "a reversed window");
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
    // An offset can carry an instant out of the years that have four digits.
    if (0..=9_999).contains(&instant.year()) {
        assert_eq!(service_kit::http::parse_instant(&instant.to_rfc3339()), Some(instant), "an instant is read back");
    }
}
