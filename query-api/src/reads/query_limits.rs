//! ClickHouse settings for statements: exact results, and limits.

use crate::read_limiter::ReadSettings;
use clickhouse::Client;
use clickhouse::query::Query;

/// Settings that make `FINAL` exact, whatever the server's defaults are (store/clickhouse/events.sql), and one snapshot for all parts of a
/// statement.
pub(crate) const EXACT: &[(&str, &str)] = &[
    ("do_not_merge_across_partitions_select_final", "1"),
    ("optimize_move_to_prewhere_if_final", "0"),
    ("use_query_condition_cache", "0"),
    ("use_skip_indexes_if_final", "0"),
    ("enable_shared_storage_snapshot_in_query", "1"),
];

/// Settings for several shards (docs/operating/scaling.md#clickhouse-shards): a subquery after IN runs once, over all shards,
/// and an unavailable shard is an error. They have no effect on a single server.
pub(crate) const OVER_SHARDS: &[(&str, &str)] = &[("distributed_product_mode", "global"), ("skip_unavailable_shards", "0")];

/// Limits for one statement. `readonly` also prevents writes.
const LIMITS: &[(&str, &str)] = &[
    ("readonly", "1"),
    ("max_result_rows", "100000"),
    ("cancel_http_readonly_queries_on_client_close", "1"),
    ("max_temporary_data_on_disk_size_for_query", "34359738368"),
];

pub(super) fn with_limits(client: &Client, settings: &ReadSettings) -> Client {
    let client = LIMITS
        .iter()
        .chain(EXACT)
        .chain(OVER_SHARDS)
        .fold(client.clone(), |client, (name, value)| client.with_setting(*name, *value));
    // Several steps use memory concurrently, so each one spills to disk at a quarter of the limit.
    let in_memory = (settings.read_memory / 4).to_string();
    client
        .with_setting("max_memory_usage", settings.read_memory.to_string())
        .with_setting("max_bytes_before_external_group_by", &in_memory)
        .with_setting("max_bytes_before_external_sort", &in_memory)
        .with_setting("max_execution_time", settings.read_start_seconds.to_string())
        .with_setting("max_result_bytes", settings.read_bytes.to_string())
}

/// Priority of statements for closings and alerts, which wait for those of all requests.
pub(crate) const BACKGROUND: usize = 1_000;
/// Maximum time that a statement waits for those with a higher priority, per block of rows. Bounds the delay if there are always some.
const WAIT_PER_BLOCK_MS: &str = "250";

/// Sets the priority of statements; 1 is the highest. ClickHouse pauses a statement after each block while one with a higher priority runs.
pub(super) fn with_priority(client: &Client, priority: usize) -> Client {
    client
        .clone()
        .with_setting("priority", priority.to_string())
        .with_setting("low_priority_query_wait_time_ms", WAIT_PER_BLOCK_MS)
}

/// Highest limit that the ClickHouse account may set (schemas/clickhouse/accounts.xml).
const MOST_ROWS: &str = "10000000";

/// Removes the size limits, for results with narrow rows and for those sent as they arrive.
pub(super) fn without_size_limit(query: Query) -> Query {
    query.with_setting("max_result_bytes", "0").with_setting("max_result_rows", MOST_ROWS)
}

#[cfg(test)]
mod tests {
    use super::super::rows::FoundPage;
    use super::super::{PageRow, Reads, Statement};
    use super::*;
    use crate::parameters::paging::Paging;
    use axum::Router;
    use axum::routing::get;
    use schemas::problem::Code;
    use serde::Deserialize;
    use service_kit::databases;
    use service_kit::http::ApiError;
    use service_kit::testing::{TestServer, TestStores, eventually};
    use std::sync::Arc;

    #[derive(clickhouse::Row, Deserialize)]
    struct Slow {
        total: u64,
    }

    impl PageRow for Slow {
        fn total(&self) -> u64 {
            self.total
        }

        fn is_item(&self) -> bool {
            true
        }
    }

    async fn page(reads: &Reads, sql: &'static str) -> Result<FoundPage<Slow>, ApiError> {
        reads.page(Statement::new(sql), Paging { limit: 1, offset: 0 }).await
    }

    async fn rows(reads: &Reads, sql: &'static str) -> Result<Vec<u64>, ApiError> {
        reads.all(Statement::new(sql)).await
    }

    /// Takes ten minutes, longer than any deadline.
    const NO_ROW: &str = "SELECT toUInt64(sum(sleepEachRow(1))) AS total FROM numbers(600)";

    /// Allows one second for the first row and an hour for a page.
    fn hasty(stores: &TestStores) -> Reads {
        let settings = ReadSettings { read_start_seconds: 1, read_seconds: 3_600, ..ReadSettings::default() };
        // Use one row per block, because ClickHouse limits the sleep per block.
        Reads::new(&databases::clickhouse(&stores.clickhouse).unwrap().with_setting("max_block_size", "1"), &settings)
    }

    #[tokio::test]
    async fn slow_first_row_returns_503() {
        let stores = TestStores::fresh().await;
        let client = databases::clickhouse(&stores.clickhouse).unwrap();
        let refused = page(&hasty(&stores), NO_ROW).await.err().map(|refusal| refusal.code());
        assert_eq!(refused, Some(Code::Unavailable));
        eventually("the statement of a failed read ends", || async {
            let running = "SELECT count() FROM system.processes \
                           WHERE current_database = currentDatabase() AND query LIKE 'SELECT toUInt64(sum(sleep%'";
            (client.query(running).fetch_one::<u64>().await.unwrap() == 0).then_some(())
        })
        .await;
    }

    #[tokio::test]
    async fn lower_priority_waits_for_higher_priority() {
        let stores = TestStores::fresh().await;
        let client = databases::clickhouse(&stores.clickhouse).unwrap();
        let one_row_blocks = client.clone().with_setting("max_block_size", "1");
        let settings = ReadSettings { read_start_seconds: 24, ..ReadSettings::default() };
        let [first, third] = [1, 3].map(|priority| Reads::new(&one_row_blocks, &settings).with_priority(priority));
        let running = || async {
            let running = "SELECT count() FROM system.processes \
                           WHERE current_database = currentDatabase() AND query LIKE 'SELECT toUInt64(sum(sleep%'";
            client.query(running).fetch_one::<u64>().await.unwrap()
        };
        let slow = "SELECT toUInt64(sum(sleepEachRow(0.1))) AS total FROM numbers(20)";
        let high = tokio::spawn(async move { rows(&first, slow).await.ok().unwrap() });
        eventually("the statement runs", || async { (running().await == 1).then_some(()) }).await;
        // 60 blocks wait for up to 15 seconds.
        assert_eq!(rows(&third, "SELECT toUInt64(sum(number)) FROM numbers(60)").await.ok().unwrap(), [1_770]);
        assert_eq!(running().await, 0, "it ended before");
        high.await.unwrap();
    }

    /// When the client disconnects, the server drops the handler and with it the statement.
    #[tokio::test]
    async fn disconnecting_cancels_the_statement() {
        let stores = TestStores::fresh().await;
        let client = databases::clickhouse(&stores.clickhouse).unwrap();
        let settings = ReadSettings { read_start_seconds: 600, ..ReadSettings::default() };
        let slow = client.clone().with_setting("max_block_size", "1");
        let reads = Arc::new(Reads::new(&slow, &settings));
        let count = || async {
            let running = "SELECT count() FROM system.processes \
                           WHERE current_database = currentDatabase() AND query LIKE 'SELECT toUInt64(sum(sleep%'";
            client.query(running).fetch_one::<u64>().await.unwrap()
        };
        for is_page in [true, false] {
            let reads = Arc::clone(&reads);
            let read = move || async move {
                if is_page { page(&reads, NO_ROW).await.map(drop) } else { rows(&reads, NO_ROW).await.map(drop) }
            };
            let server = TestServer::start(Router::new().route("/read", get(read))).await;
            let url = format!("{}/read", server.url);
            let asking = tokio::spawn(async move { service_kit::testing::client().get(url).send().await.map(drop) });
            eventually("the statement runs", || async { (count().await == 1).then_some(()) }).await;
            asking.abort();
            eventually("the statement ends after a disconnect", || async { (count().await == 0).then_some(()) }).await;
        }
    }

    #[tokio::test]
    async fn pages_have_a_longer_timeout_than_other_statements() {
        let reads = hasty(&TestStores::fresh().await);
        let limit = "SELECT toUInt64(value) FROM system.settings WHERE name = 'max_execution_time'";
        let streamed = reads.times.streamed(reads.client.query(limit)).fetch_one::<u64>().await.unwrap();
        let other = reads.client.query(limit).fetch_one::<u64>().await.unwrap();
        assert_eq!((streamed, other), (3_601, 1));
    }
}
