//! The DDL of both stores, so that every crate speaks of the same tables.
//!
//! Must not connect to anything: who applies the DDL, and when, is the services' matter.

/// ClickHouse DDL, in order; every statement is safe to repeat.
pub const CLICKHOUSE_DDL: &[&str] = &[
    include_str!("../clickhouse/observations.sql"),
    include_str!("../clickhouse/retrieval_index.sql"),
    include_str!("../clickhouse/retrieval_index_moved.sql"),
    include_str!("../clickhouse/retrieval_index_shape.sql"),
    include_str!("../clickhouse/retrieval_index_delta.sql"),
];

/// What each of several shards has besides, in order; every statement is safe to repeat.
pub const CLICKHOUSE_SHARDS_DDL: &[&str] = &[include_str!("../clickhouse/high_watermarks.sql")];
/// How far all shards have the log.
pub const HIGH_WATERMARKS: &str = "high_watermarks";

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
    pub sorting_key: SortingKey,
}

/// What rows of a table merge on. Over several shards what another position of the log has is a row of its own: one that no read shows
/// yet must not replace one that is shown. Reads take the first of those that they may show.
#[derive(Clone, Copy, Debug)]
pub struct SortingKey {
    /// Where one server has everything, as the statement that creates the table has it.
    pub one_server: &'static str,
    /// On each of several shards.
    pub shard: &'static str,
}

/// The identity of an observation.
const OBSERVATIONS_KEY: SortingKey = SortingKey {
    one_server: "site, event_key, org_id, observer",
    shard: "site, event_key, org_id, observer, version, log_partition, log_offset",
};
/// What rows of [`RETRIEVAL_INDEX`] merge on: in the base a retrieval.
pub const RETRIEVAL_INDEX_KEY: SortingKey = SortingKey {
    one_server: "site, placed_at, key_low, key_high, delta_org, delta_observer",
    shard: "site, placed_at, key_low, key_high, delta_org, delta_observer, if(tier = 'delta', revision, 0), log_partition, log_offset",
};

/// The columns that both tables of a shard have besides.
const POSITION: &str = ",
    log_partition Int32 DEFAULT 0 COMMENT 'of the log, where the report stands',
    log_offset    Int64 DEFAULT -1 COMMENT 'its offset there; -1: read whatever the high watermark, as the rows of the base are'
)
ENGINE";

/// [`CLICKHOUSE_DDL`] as it is applied to a shard.
pub fn clickhouse_ddl_of_shard() -> impl Iterator<Item = String> {
    CLICKHOUSE_DDL.iter().map(|statement| {
        let keys = [OBSERVATIONS_KEY, RETRIEVAL_INDEX_KEY];
        let is_table = keys.iter().any(|key| statement.contains(key.one_server));
        let is_view = statement.contains("CREATE MATERIALIZED VIEW");
        let text = if is_table { statement.replace("\n)\nENGINE", POSITION) } else { (*statement).to_owned() };
        let text = if is_view { text.replace("\nSELECT\n", "\nSELECT log_partition, log_offset,\n") } else { text };
        let by_key = |key: &str| format!("\nORDER BY ({key})\n");
        keys.iter().fold(text, |text, key| text.replace(&by_key(key.one_server), &by_key(key.shard)))
    })
}

/// Observations merge on their identity alone: with another key, or cut into partitions, repeats would stay apart.
pub const CLICKHOUSE_TABLES: &[TableContract] =
    &[TableContract { table: OBSERVATIONS, engine: "ReplacingMergeTree", version: "version", sorting_key: OBSERVATIONS_KEY }];

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
    fn a_shard_has_both_tables_by_the_keys_of_shards_and_no_view_of_one_server() {
        let statements: Vec<String> = clickhouse_ddl_of_shard().collect();
        for key in [OBSERVATIONS_KEY, RETRIEVAL_INDEX_KEY] {
            let by_key = |key: &str| statements.iter().filter(|text| text.contains(&format!("ORDER BY ({key})\n"))).count();
            assert_eq!((by_key(key.shard), by_key(key.one_server)), (1, 0), "{}", key.shard);
            let table = statements.iter().find(|text| text.contains(key.shard)).unwrap();
            assert!(table.contains("log_partition Int32") && table.contains("log_offset    Int64"), "{table}");
        }
        assert_eq!(statements.iter().filter(|text| text.contains("SELECT log_partition, log_offset,\n")).count(), 1);
        assert_eq!(statements.len(), CLICKHOUSE_DDL.len() - 1);
        assert!(!statements.iter().any(|text| text.contains("CREATE VIEW")));
    }

    #[test]
    fn a_column_that_is_added_has_a_default_or_workers_of_the_build_before_could_not_insert() {
        let added = CLICKHOUSE_DDL.iter().flat_map(|statement| statement.split("ADD COLUMN").skip(1));
        for column in added {
            assert!([" DEFAULT ", " MATERIALIZED "].iter().any(|kind| column.contains(kind)), "{column}");
        }
    }
}
