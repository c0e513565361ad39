//! Maps ClickHouse errors to responses.

use clickhouse::error::Error;
use schemas::problem::Code;
use service_kit::http::ApiError;

/// ClickHouse error codes for overload and limits: too many rows, timeout, too many queries, memory, too many bytes, canceled.
const OVERLOADED: &[u32] = &[158, 159, 202, 241, 307, 394];
/// ClickHouse error codes if another server is unavailable: end of file, DNS, timeout, network, no connection.
const SERVER_UNAVAILABLE: &[u32] = &[32, 198, 209, 210, 279];
/// ClickHouse error code if the database doesn't exist: dropped, or not created yet.
const NO_DATABASE: u32 = 81;
const LARGE: &str = "The response would be too large. Use a smaller limit, a shorter period or one domain.";

/// Returns 413 if the result is too large, 503 if a retry may succeed, otherwise 500.
pub(crate) fn to_api_error(error: Error) -> ApiError {
    match &error {
        _ if is_too_large(&error) => ApiError::new(Code::TooLarge, LARGE),
        Error::Network(_) | Error::TimedOut => ApiError::unavailable(error),
        Error::BadResponse(reason)
            if code_of(reason)
                .is_some_and(|code| OVERLOADED.contains(&code) || SERVER_UNAVAILABLE.contains(&code) || code == NO_DATABASE) =>
        {
            ApiError::unavailable(error)
        }
        _ => ApiError::internal(error),
    }
}

/// Returns whether the read itself is too large: its result, or its statement's memory.
fn is_too_large(error: &Error) -> bool {
    let is_own_fault = |reason: &str| match code_of(reason) {
        Some(396) => true,
        Some(241) => reason.contains("Query memory limit"),
        _ => false,
    };
    matches!(error, Error::BadResponse(reason) if is_own_fault(reason))
}

/// Parses `Code: 159. DB::Exception: …`, even if everything after `Code: 159` is missing.
fn code_of(reason: &str) -> Option<u32> {
    let (_, rest) = reason.split_once("Code: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::Reads;
    use super::*;
    use crate::read_limiter::ReadSettings;
    use service_kit::databases;
    use service_kit::testing::TestStores;

    async fn reads() -> Reads {
        let stores = TestStores::fresh().await;
        Reads::new(&databases::clickhouse(&stores.clickhouse).unwrap(), &ReadSettings::default())
    }

    #[tokio::test]
    async fn reads_cannot_write() {
        let reads = reads().await;
        for statement in ["INSERT INTO events (site) VALUES ('com.example')", "TRUNCATE TABLE events", "DROP TABLE events"] {
            let refusal = reads.client.query(statement).execute().await.unwrap_err().to_string();
            assert!(refusal.contains("readonly"), "{refusal}");
        }
    }

    #[tokio::test]
    async fn errors_map_to_413_503_and_500() {
        let reads = reads().await;
        let code = async |sql: &str| to_api_error(reads.client.query(sql).fetch_one::<u64>().await.unwrap_err()).code();
        assert_eq!(code("SELECT number FROM numbers(200000)").await, Code::TooLarge);
        let error = |reason: &str| to_api_error(Error::BadResponse(reason.to_owned())).code();
        assert_eq!(error("Code: 241. DB::Exception: Query memory limit exceeded: would use 2.01 GiB"), Code::TooLarge);
        assert_eq!(error("Code: 241. DB::Exception: (total) memory limit exceeded: would use 9 GiB"), Code::Unavailable);
        assert_eq!((error("Code: 159"), error("Code: 1590")), (Code::Unavailable, Code::Internal));
        assert_eq!(code("SELECT count() FROM nothing").await, Code::Internal);
        assert_eq!(code("SELECT count() FROM no_such_database.events").await, Code::Unavailable);
    }
}
