//! Hourly limits that count stored rows, including those withdrawn or revoked since.

use chrono::{DateTime, TimeDelta, Utc};
use schemas::problem::Code;
use service_kit::http::ApiError;

pub(crate) const WINDOW: TimeDelta = TimeDelta::hours(1);

/// Returns the number of newest rows to skip to find the row that must leave the window before another one is accepted. `None` means
/// unlimited.
pub(crate) fn offset(limit: u32) -> Option<i64> {
    limit.checked_sub(1).map(i64::from)
}

/// Returns 429 until the row created at `oldest` has left the window.
pub(crate) fn refuse_until(oldest: Option<DateTime<Utc>>, now: DateTime<Utc>, why: &str) -> Result<(), ApiError> {
    let Some(oldest) = oldest else { return Ok(()) };
    let wait = (oldest + WINDOW - now).to_std().unwrap_or_default();
    Err(ApiError::new(Code::TooManyRequests, why).retry_after(wait))
}
