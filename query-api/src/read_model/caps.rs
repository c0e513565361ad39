//! What one read may cost the store, and for how long it may be at it.
//!
//! Must not count against the store what the reader takes its time for: a page that nobody takes off the line is held back
//! within ClickHouse, whose own limit goes on counting. So that limit is the whole time a page may take, and how long its
//! first row may take is watched here.

use crate::read_limiter::ReadSettings;
use clickhouse::Client;
use clickhouse::query::Query;

/// What one read may cost. `readonly` comes with them: no statement of this crate can write.
pub(super) const CAPS: &[(&str, &str)] = &[
    ("readonly", "1"),
    ("max_result_rows", "100000"),
    ("cancel_http_readonly_queries_on_client_close", "1"),
    // What goes to disk is bounded too: a read is no reason for a full one.
    ("max_temporary_data_on_disk_size_for_query", "34359738368"),
];

/// Rows that agents come in, as arrays: reporters name any number of them, and a read may have so many rows and no more.
pub(super) const ROWS_OF_AGENTS: u16 = 256;

/// A query whose answer is as large as what it is of: its rows are few or narrow, or go out as they come.
pub(super) fn of_any_size(query: Query) -> Query {
    query.with_setting("max_result_bytes", "0")
}

/// Rewrites that nothing here gains by, and that look through every step once for each key of the groupings and orders above it:
/// up to half of what a statement of many steps takes to plan.
pub(super) const PLANNING: &[(&str, &str)] = &[
    ("optimize_aggregators_of_group_by_keys", "0"),
    ("optimize_group_by_function_keys", "0"),
    ("optimize_redundant_functions_in_order_by", "0"),
    ("optimize_truncate_order_by_after_group_by_keys", "0"),
];

/// What figures are exact by, whoever asks.
pub(super) const EXACT: &[(&str, &str)] = &[
    // A page and its total come from one step, and every step of a query sees one moment.
    ("enable_materialized_cte", "1"),
    ("enable_shared_storage_snapshot_in_query", "1"),
    // A row that an index would pass over still replaces an older one; and no row of one tier of the index of retrievals
    // replaces one of the other.
    ("use_skip_indexes_if_final", "0"),
    ("do_not_merge_across_partitions_select_final", "1"),
    // Of parts below this many rows, the young ones, a projection is otherwise not looked at: they would be read whole.
    ("min_table_rows_to_use_projection_index", "0"),
];

/// A client under the caps.
pub(super) fn capped(client: &Client, settings: &ReadSettings) -> Client {
    let settings_of_all = CAPS.iter().chain(EXACT).chain(PLANNING);
    let client = settings_of_all.fold(client.clone(), |client, (name, value)| client.with_setting(*name, *value));
    // What a step groups or sorts may take a part of it, because several steps and what they hand over stand side by side.
    let in_memory = (settings.read_memory / 4).to_string();
    client
        .with_setting("max_memory_usage", settings.read_memory.to_string())
        .with_setting("max_bytes_before_external_group_by", &in_memory)
        .with_setting("max_bytes_before_external_sort", &in_memory)
        .with_setting("max_execution_time", settings.read_start_seconds.to_string())
        .with_setting("max_result_bytes", settings.read_bytes.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::rows::PageRow;
    use super::super::{Telemetry, Values};
    use super::*;
    use crate::parameters::paging::Paging;
    use axum::Router;
    use axum::routing::get;
    use schemas::problem::Code;
    use serde::Deserialize;
    use service_kit::http::ApiError;
    use service_kit::stores;
    use service_kit::testing::{TestServer, TestStores, eventually};
    use std::sync::Arc;

    /// A row of a page that this test makes up.
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

    async fn page(telemetry: &Telemetry, statement: &str) -> Result<crate::read_model::FoundPage<Slow>, ApiError> {
        telemetry.page(statement, Values::default(), Paging { limit: 1, offset: 0 }).await
    }

    async fn rows(telemetry: &Telemetry, statement: &str) -> Result<Vec<u64>, ApiError> {
        telemetry.rows(statement, Values::default()).await
    }

    /// Ten minutes: more than anything waits for.
    const NO_ROW: &str = "SELECT toUInt64(sum(sleepEachRow(1))) AS total FROM numbers(600)";

    /// Gives a first row one second, and a page an hour.
    fn hasty(stores: &TestStores) -> Telemetry {
        let settings = ReadSettings { read_start_seconds: 1, read_seconds: 3_600, ..ReadSettings::default() };
        // One row at a time, because a block may not sleep for long.
        Telemetry::new(&stores::clickhouse(&stores.clickhouse).unwrap().with_setting("max_block_size", "1"), &settings)
    }

    #[tokio::test]
    async fn a_page_that_has_not_begun_in_its_time_is_503_and_its_query_ends() {
        let stores = TestStores::fresh().await;
        let client = stores::clickhouse(&stores.clickhouse).unwrap();
        let refused = page(&hasty(&stores), NO_ROW).await.err().map(|refusal| refusal.code());
        assert_eq!(refused, Some(Code::Unavailable));
        eventually("nobody works for a reader that has been refused", || async {
            let running = "SELECT count() FROM system.processes \
                           WHERE current_database = currentDatabase() AND query LIKE 'SELECT toUInt64(sum(sleep%'";
            (client.query(running).fetch_one::<u64>().await.unwrap() == 0).then_some(())
        })
        .await;
    }

    /// Who leaves is noticed by the server that the process runs, whose handler is then dropped with its query.
    #[tokio::test]
    async fn a_caller_that_leaves_during_a_slow_read_leaves_no_query_running() {
        let stores = TestStores::fresh().await;
        let client = stores::clickhouse(&stores.clickhouse).unwrap();
        let settings = ReadSettings { read_start_seconds: 600, ..ReadSettings::default() };
        let slow = client.clone().with_setting("max_block_size", "1");
        let telemetry = Arc::new(Telemetry::new(&slow, &settings));
        let count = || async {
            let running = "SELECT count() FROM system.processes \
                           WHERE current_database = currentDatabase() AND query LIKE 'SELECT toUInt64(sum(sleep%'";
            client.query(running).fetch_one::<u64>().await.unwrap()
        };
        for is_page in [true, false] {
            let telemetry = Arc::clone(&telemetry);
            let read = move || async move {
                if is_page { page(&telemetry, NO_ROW).await.map(drop) } else { rows(&telemetry, NO_ROW).await.map(drop) }
            };
            let server = TestServer::start(Router::new().route("/read", get(read))).await;
            let url = format!("{}/read", server.url);
            let asking = tokio::spawn(async move { service_kit::testing::client().get(url).send().await.map(drop) });
            eventually("the query runs", || async { (count().await == 1).then_some(()) }).await;
            asking.abort();
            eventually("nobody works for who has left", || async { (count().await == 0).then_some(()) }).await;
        }
    }

    #[tokio::test]
    async fn what_is_not_streamed_has_no_longer_than_a_page_has_to_begin() {
        let stores = TestStores::fresh().await;
        let refusal = super::super::refused(hasty(&stores).client.query(NO_ROW).fetch_one::<u64>().await.unwrap_err());
        assert_eq!(refusal.code(), Code::Unavailable);
    }

    #[tokio::test]
    async fn the_store_itself_holds_a_page_to_the_time_of_its_reader_and_anything_else_to_that_of_a_first_row() {
        let telemetry = hasty(&TestStores::fresh().await);
        let held = "SELECT toUInt64(value) FROM system.settings WHERE name = 'max_execution_time'";
        let streamed = telemetry.times.streamed(telemetry.client.query(held)).fetch_one::<u64>().await.unwrap();
        let other = telemetry.client.query(held).fetch_one::<u64>().await.unwrap();
        assert_eq!((streamed, other), (3_601, 1));
    }
}
