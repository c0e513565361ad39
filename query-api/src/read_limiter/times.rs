//! How long reads may take. ClickHouse enforces the time of the whole response, this process that of the first row.

use super::ReadSettings;
use clickhouse::query::Query;
use service_kit::http::ApiError;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    start: Duration,
    /// Until the last byte of a streamed response.
    whole: Duration,
}

impl Times {
    pub(crate) fn new(settings: &ReadSettings) -> Self {
        let start = settings.time_to_start();
        Self { start, whole: start + Duration::from_secs(settings.read_seconds.into()) }
    }

    /// A query whose rows are sent as fast as the caller reads them. ClickHouse's own limit keeps counting while the caller
    /// is slow, so it covers the whole response.
    pub(crate) fn streamed(&self, query: Query) -> Query {
        let seconds = self.whole.as_secs().to_string();
        query.with_setting("max_execution_time", &seconds).with_setting("http_send_timeout", &seconds)
    }

    /// Waits for a first row; returns 503 if it takes too long.
    pub(crate) async fn started<T>(&self, work: impl Future<Output = T>) -> Result<T, ApiError> {
        let late = |_| ApiError::unavailable(anyhow::anyhow!("ClickHouse took longer than {:?} for a first row", self.start));
        tokio::time::timeout(self.start, work).await.map_err(late)
    }
}
