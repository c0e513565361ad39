//! Settings of the statements: what makes them exact, and what one may cost.

use crate::read_limiter::ReadSettings;
use clickhouse::Client;
use clickhouse::query::Query;
use service_kit::http::ApiError;
use std::time::Duration;

/// What `FINAL` needs to be exact, whatever the server's defaults are (store/clickhouse/events.sql), and one snapshot for
/// all parts of a statement.
pub(super) const EXACT: &[(&str, &str)] = &[
    ("do_not_merge_across_partitions_select_final", "1"),
    ("optimize_move_to_prewhere_if_final", "0"),
    ("use_query_condition_cache", "0"),
    ("use_skip_indexes_if_final", "0"),
    ("enable_shared_storage_snapshot_in_query", "1"),
];

/// Limits of one statement. With `readonly` it cannot write.
const LIMITS: &[(&str, &str)] = &[
    ("readonly", "1"),
    ("max_result_rows", "100000"),
    ("cancel_http_readonly_queries_on_client_close", "1"),
    ("max_temporary_data_on_disk_size_for_query", "34359738368"),
];

/// Returns the client with all settings.
pub(super) fn capped(client: &Client, settings: &ReadSettings) -> Client {
    let client = LIMITS.iter().chain(EXACT).fold(client.clone(), |client, (name, value)| client.with_setting(*name, *value));
    // Several steps hold memory at once, so each sorts and groups on disk from a quarter on.
    let in_memory = (settings.read_memory / 4).to_string();
    client
        .with_setting("max_memory_usage", settings.read_memory.to_string())
        .with_setting("max_bytes_before_external_group_by", &in_memory)
        .with_setting("max_bytes_before_external_sort", &in_memory)
        .with_setting("max_execution_time", settings.read_start_seconds.to_string())
        .with_setting("max_result_bytes", settings.read_bytes.to_string())
}

/// Lifts the limits on the size of a result: its rows are narrow, or are sent on as they arrive.
pub(super) fn of_any_size(query: Query) -> Query {
    query.with_setting("max_result_bytes", "0").with_setting("max_result_rows", "0")
}

/// How long a read may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Until the first row.
    start: Duration,
    /// Until the last byte of a streamed response.
    whole: Duration,
}

impl Times {
    pub(super) fn new(settings: &ReadSettings) -> Self {
        let start = settings.time_to_start();
        Self { start, whole: start + Duration::from_secs(settings.read_seconds.into()) }
    }

    /// A query whose rows are sent as fast as the caller reads them. ClickHouse's own limit keeps counting while the caller
    /// is slow, so it covers the whole response.
    pub(super) fn streamed(&self, query: Query) -> Query {
        let seconds = self.whole.as_secs().to_string();
        query.with_setting("max_execution_time", &seconds).with_setting("http_send_timeout", &seconds)
    }

    /// Waits for a first row; returns 503 if it takes too long.
    pub(super) async fn started<T>(&self, work: impl Future<Output = T>) -> Result<T, ApiError> {
        let late = |_| ApiError::unavailable(anyhow::anyhow!("ClickHouse took longer than {:?} for a first row", self.start));
        tokio::time::timeout(self.start, work).await.map_err(late)
    }
}
