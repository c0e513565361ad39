//! What it means for a caller that ClickHouse did not answer a query.
//!
//! Must tell what passes from what does not: only what may go well when asked again is 503.

use clickhouse::error::Error;
use schemas::problem::Code;
use service_kit::http::ApiError;

/// Codes by which ClickHouse refuses for load or a cap: too many rows, timeout, too many queries, memory, too many
/// bytes, cancelled.
const OVERLOADED: &[u32] = &[158, 159, 202, 241, 307, 394];
/// Codes by which ClickHouse says that another shard does not answer: end of file, DNS, timeout, network, no connection.
const SHARD_AWAY: &[u32] = &[32, 198, 209, 210, 279];
/// Code by which ClickHouse says that the database is not there: dropped, or not made again yet.
const NO_DATABASE: u32 = 81;
/// What to do about an answer that is too large, whichever read it is of.
const LARGE: &str = "The response would be too large. Use a smaller limit, a shorter period or one domain.";

/// What a failed query means for the caller.
pub(crate) fn refused(error: Error) -> ApiError {
    match &error {
        // It will not be less when asked again.
        _ if is_too_large(&error) => ApiError::new(Code::TooLarge, LARGE),
        Error::Network(_) | Error::TimedOut => ApiError::unavailable(error),
        Error::BadResponse(reason)
            if code_of(reason)
                .is_some_and(|code| OVERLOADED.contains(&code) || SHARD_AWAY.contains(&code) || code == NO_DATABASE) =>
        {
            ApiError::unavailable(error)
        }
        _ => ApiError::internal(error),
    }
}

/// Whether an answer was refused for its own size: it is too long, or the query alone needs more than a query may.
pub(super) fn is_too_large(error: &Error) -> bool {
    let is_own_fault = |reason: &str| match code_of(reason) {
        Some(396) => true,
        Some(241) => reason.contains("Query memory limit"),
        _ => false,
    };
    matches!(error, Error::BadResponse(reason) if is_own_fault(reason))
}

/// `Code: 159. DB::Exception: …`, or only `Code: 159` when the rest of the answer was cut off.
fn code_of(reason: &str) -> Option<u32> {
    let (_, rest) = reason.split_once("Code: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
