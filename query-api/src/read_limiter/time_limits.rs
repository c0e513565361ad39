//! Time limits for reads. ClickHouse enforces the limit for the whole response; this process enforces the limit for the first row.

use super::ReadSettings;
use clickhouse::query::Query;
use service_kit::http::ApiError;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    start: Duration,
    /// Maximum time until the last byte of a streamed response.
    whole: Duration,
}

impl TimeLimits {
    pub(crate) fn new(settings: &ReadSettings) -> Self {
        let start = settings.time_to_start();
        Self { start, whole: start + Duration::from_secs(settings.read_seconds.into()) }
    }

    /// Sets the limits for a streamed query. ClickHouse's limit includes the time that it waits for a slow caller, so it covers the whole
    /// response.
    pub(crate) fn streamed(&self, query: Query) -> Query {
        let seconds = self.whole.as_secs().to_string();
        query.with_setting("max_execution_time", &seconds).with_setting("http_send_timeout", &seconds)
    }

    /// Waits for the first row. Returns 503 if it takes too long.
    pub(crate) async fn started<T>(&self, work: impl Future<Output = T>) -> Result<T, ApiError> {
        let late = |_| ApiError::unavailable(anyhow::anyhow!("ClickHouse took longer than {:?} to return a row", self.start));
        tokio::time::timeout(self.start, work).await.map_err(late)
    }
}
