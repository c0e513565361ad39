//! Limits per hour on rows that stay: whatever became of what they stand for, they count.

use chrono::{DateTime, TimeDelta, Utc};
use schemas::problem::Code;
use service_kit::http::ApiError;

pub(crate) const WINDOW: TimeDelta = TimeDelta::hours(1);

/// Rows to pass over, newest first, to find the one that has to grow old before there is room for another; none without a limit.
pub(crate) fn offset(limit: u32) -> Option<i64> {
    limit.checked_sub(1).map(i64::from)
}

/// Returns 429 until the row of `oldest` has left the window.
pub(crate) fn refuse_until(oldest: Option<DateTime<Utc>>, now: DateTime<Utc>, why: &str) -> Result<(), ApiError> {
    let Some(oldest) = oldest else { return Ok(()) };
    let wait = (oldest + WINDOW - now).to_std().unwrap_or_default();
    Err(ApiError::new(Code::TooManyRequests, why).retry_after(wait))
}
