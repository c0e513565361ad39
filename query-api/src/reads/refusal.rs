//! Errors of ClickHouse as responses.

use clickhouse::error::Error;
use schemas::problem::Code;
use service_kit::http::ApiError;

/// ClickHouse refuses for load or a limit: too many rows, timeout, too many queries, memory, too many bytes, cancelled.
const OVERLOADED: &[u32] = &[158, 159, 202, 241, 307, 394];
/// The database doesn't exist, or doesn't exist yet.
const NO_DATABASE: u32 = 81;
/// The result exceeds its limit.
const RESULT_TOO_LARGE: u32 = 396;
/// Out of memory: for this statement, or on the whole server.
const MEMORY: u32 = 241;

const TOO_LARGE: &str = "The response would be too large. Use a smaller limit, a shorter period or one domain.";

/// Returns 413 for a statement that can never succeed, 503 for one that may succeed later, 500 for a wrong one.
pub(super) fn refused(error: Error) -> ApiError {
    let code = match &error {
        Error::Network(_) | Error::TimedOut => return ApiError::unavailable(error),
        Error::BadResponse(reason) => code_of(reason),
        _ => None,
    };
    match code {
        Some(RESULT_TOO_LARGE) => ApiError::new(Code::TooLarge, TOO_LARGE),
        Some(MEMORY) if error.to_string().contains("Query memory limit") => ApiError::new(Code::TooLarge, TOO_LARGE),
        Some(code) if OVERLOADED.contains(&code) || code == NO_DATABASE => ApiError::unavailable(error),
        _ => ApiError::internal(error),
    }
}

/// The number in `Code: 159. DB::Exception: …`, of which the end may be missing.
fn code_of(reason: &str) -> Option<u32> {
    let (_, rest) = reason.split_once("Code: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_size_is_413_and_load_is_503() {
        let code = |reason: &str| refused(Error::BadResponse(reason.to_owned())).code();
        assert_eq!(code("Code: 396. DB::Exception: Limit for result exceeded"), Code::TooLarge);
        assert_eq!(code("Code: 241. DB::Exception: Query memory limit exceeded: would use 2 GiB"), Code::TooLarge);
        assert_eq!(code("Code: 241. DB::Exception: (total) memory limit exceeded: would use 9 GiB"), Code::Unavailable);
        assert_eq!(
            (code("Code: 159"), code("Code: 1590"), code("Code: 47")),
            (Code::Unavailable, Code::Internal, Code::Internal)
        );
    }
}
