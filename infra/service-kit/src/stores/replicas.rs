//! How a database is made on a server that has Keeper, so that its tables are replicated (docs/operating/scaling.md#clickhouse-replicas).
//!
//! Must not change a database that is there: what its engine is says how its tables are made.

use crate::connections::{absent_clickhouse, clickhouse_server};
use crate::settings::ClickHouseSettings;
use anyhow::ensure;

/// The engine whose statements every replica works off, and which makes the tables of a replica that is added.
const REPLICATED: &str = "Replicated";
/// Longer than a worker that lacks an answer goes on repeating a block: one week.
const DEDUPLICATED_SECONDS: u32 = 604_800;

#[derive(clickhouse::Row, serde::Deserialize)]
struct Keeper {
    is_there: bool,
    /// Which of the macros are defined that tell replicas apart.
    macros: Vec<String>,
}

/// Creates the database where it is missing, and says whether its tables are replicated.
pub(super) async fn create_database(settings: &ClickHouseSettings) -> anyhow::Result<bool> {
    let (server, database) = (clickhouse_server(settings)?, &settings.clickhouse_database);
    let absent = |error| absent_clickhouse(settings, &error);
    let engine = server.query("SELECT engine FROM system.databases WHERE name = ?").bind(database);
    if let Some(engine) = engine.fetch_optional::<String>().await.map_err(absent)? {
        return Ok(engine == REPLICATED);
    }
    let statement = "SELECT countIf(name = 'zookeeper') > 0 AS is_there, \
         (SELECT groupArray(macro) FROM system.macros WHERE macro IN ('shard', 'replica')) AS macros \
         FROM system.tables WHERE database = 'system'";
    let keeper: Keeper = server.query(statement).fetch_one().await.map_err(absent)?;
    ensure!(
        !keeper.is_there || keeper.macros.len() == 2,
        "CLICKHOUSE_URL: the server has Keeper, but no macros `shard` and `replica`: define both in its configuration, or run CREATE DATABASE {database} ENGINE = Atomic to have the tables on this server alone"
    );
    let engine = if keeper.is_there { replicated_engine(database) } else { "Atomic".to_owned() };
    let create = format!("CREATE DATABASE IF NOT EXISTS {database} ENGINE = {engine}");
    server.query(&create).execute().await.map_err(absent)?;
    Ok(keeper.is_there)
}

/// A database for the replicas of each shard: statements of one shard are not another's.
fn replicated_engine(database: &str) -> String {
    format!("{REPLICATED}('/clickhouse/databases/{{shard}}/{database}', '{{shard}}', '{{replica}}')")
}

/// A statement that makes a table, as it is written for a replica.
pub(super) fn replicated(statement: &str) -> String {
    let window = "non_replicated_deduplication_window = 10000";
    let replicated =
        format!("replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = {DEDUPLICATED_SECONDS}");
    statement
        .replace("\nENGINE = ReplacingMergeTree", "\nENGINE = ReplicatedReplacingMergeTree")
        .replace("\nENGINE = MergeTree", "\nENGINE = ReplicatedMergeTree")
        .replace(window, &replicated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::store::{CLICKHOUSE_DDL, CLICKHOUSE_SHARDS_DDL, clickhouse_ddl_of_shard};

    #[test]
    fn every_table_of_a_replica_is_replicated_and_deduplicates_blocks_for_a_week() {
        let statements = CLICKHOUSE_DDL.iter().chain(CLICKHOUSE_SHARDS_DDL).chain(store::tables::DDL).map(ToString::to_string);
        let statements = statements.chain(clickhouse_ddl_of_shard());
        let mut tables = 0;
        for statement in statements {
            let written = replicated(&statement);
            let is_table = statement.contains("CREATE TABLE");
            assert_eq!(written.contains("\nENGINE = Replicated"), is_table, "{written}");
            assert!(!written.contains("non_replicated"), "{written}");
            let has_window = statement.contains("deduplication_window = ");
            assert_eq!(written.contains("replicated_deduplication_window_seconds = 604800"), has_window, "{written}");
            assert!(is_table || written == statement, "{written}");
            tables += usize::from(is_table);
        }
        assert_eq!(tables, 12, "three of one server, three of a shard, one that shards have besides, and five of the writer");
    }

    #[test]
    fn replicas_of_a_shard_share_a_database_and_shards_do_not() {
        let engine = "Replicated('/clickhouse/databases/{shard}/telemetry', '{shard}', '{replica}')";
        assert_eq!(replicated_engine("telemetry"), engine);
    }
}
