//! The DDL of both stores, so that every crate speaks of the same tables.
//!
//! Must not connect to anything: who applies the DDL, and when, is the services' matter.

/// ClickHouse DDL, in order; every statement is safe to repeat.
pub const CLICKHOUSE_DDL: &[&str] = &[
    include_str!("../clickhouse/observations.sql"),
    include_str!("../clickhouse/observations_platform.sql"),
    include_str!("../clickhouse/observations_received.sql"),
    include_str!("../clickhouse/observations_projections.sql"),
    include_str!("../clickhouse/observations_by_reporter.sql"),
    include_str!("../clickhouse/observations_by_session.sql"),
    include_str!("../clickhouse/observations_clicks.sql"),
    include_str!("../clickhouse/observations_crawlers.sql"),
    include_str!("../clickhouse/observations_blocks.sql"),
    include_str!("../clickhouse/observations_accepted.sql"),
    include_str!("../clickhouse/retrieval_index.sql"),
    include_str!("../clickhouse/retrieval_index_moved.sql"),
    include_str!("../clickhouse/retrieval_index_shape.sql"),
    include_str!("../clickhouse/retrieval_index_delta.sql"),
    include_str!("../clickhouse/analyst_leases.sql"),
    include_str!("../clickhouse/publisher_retrievals.sql"),
];

/// The table that the reads of content owners count from (docs/operating/reads.md).
pub const RETRIEVAL_INDEX: &str = "retrieval_index";
/// The view that puts every report into [`RETRIEVAL_INDEX`].
pub const RETRIEVAL_INDEX_DELTA: &str = "retrieval_index_delta";
/// What the comment of [`RETRIEVAL_INDEX`] begins with once it has every observation.
pub const RETRIEVAL_INDEX_COMPLETE: &str = "complete:";
/// One compaction of [`RETRIEVAL_INDEX`]; its parameters are `epoch`, `compactor`, `parts`, `low` and `high`.
pub const COMPACT: &str = include_str!("../clickhouse/compact.sql");

/// The table of observations: every figure is read from it.
pub const OBSERVATIONS: &str = "observations";

/// What a table must be, checked at start-up because no statement alters it.
#[derive(Clone, Copy, Debug)]
pub struct TableContract {
    /// Its name.
    pub table: &'static str,
    /// Its engine, a prefix such as `Replicated` aside.
    pub engine: &'static str,
    /// The column that says which of two repeats stays.
    pub version: &'static str,
    /// The identity of a row; no partition key may cut it.
    pub sorting_key: &'static str,
}

/// Observations merge on their identity alone: with another key, or cut into partitions, repeats would stay apart.
pub const CLICKHOUSE_TABLES: &[TableContract] = &[TableContract {
    table: OBSERVATIONS,
    engine: "ReplacingMergeTree",
    version: "version",
    sorting_key: "site, event_key, org_id, observer",
}];

/// What a table setting must be at least, checked at start-up: table, setting, value.
pub const CLICKHOUSE_REQUIRED_SETTINGS: &[(&str, &str, u64)] = &[(OBSERVATIONS, "non_replicated_deduplication_window", 100)];

/// What a table's definition must hold, checked at start-up: reads would scan the whole table without it.
pub const CLICKHOUSE_REQUIRED_PARTS: &[(&str, &str)] = &[
    (OBSERVATIONS, "deduplicate_merge_projection_mode = 'rebuild'"),
    (OBSERVATIONS, "PROJECTION by_reporter"),
    (OBSERVATIONS, "PROJECTION by_session"),
    (OBSERVATIONS, "INDEX by_issuer"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_added_has_a_default_or_workers_of_the_build_before_could_not_insert() {
        let added = CLICKHOUSE_DDL.iter().flat_map(|statement| statement.split("ADD COLUMN").skip(1));
        for column in added {
            assert!([" DEFAULT ", " MATERIALIZED "].iter().any(|kind| column.contains(kind)), "{column}");
        }
    }
}
