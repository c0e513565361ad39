//! Reads a request: caller, bytes, JSON, limits. Members are interpreted later.

pub(crate) mod caller_cache;
pub(crate) mod report_signature;
pub(crate) mod write_request;
pub(crate) mod body_memory;
pub(crate) mod raw_json;
pub(crate) mod faults;
pub(crate) mod limits;
pub(crate) mod idempotency;
pub(crate) mod cpu_permits;
pub(crate) mod write_budgets;

use crate::metrics;
use schemas::problem::Code;
use service_kit::http::ApiError;

/// Returns the 503 for a request over the limit of requests in progress. These are counted, not logged individually.
pub(crate) fn overloaded() -> ApiError {
    metrics::overloaded();
    ApiError::new(Code::Unavailable, "Too many requests are in progress; nothing was changed. Try again shortly.")
}
