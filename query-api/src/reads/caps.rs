//! Settings of the statements: what makes them exact, and what one may cost.

use crate::read_limiter::ReadSettings;
use clickhouse::Client;
use clickhouse::query::Query;

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
