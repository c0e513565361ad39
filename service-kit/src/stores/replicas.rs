//! Creates a replicated database on servers with Keeper (docs/operating/scaling.md#clickhouse-replicas).

use crate::connections::{absent_clickhouse, clickhouse_server};
use crate::settings::ClickHouseSettings;
use anyhow::ensure;

/// Engine that runs DDL on every replica and creates the tables of new replicas.
const REPLICATED: &str = "Replicated";

#[derive(clickhouse::Row, serde::Deserialize)]
struct Keeper {
    is_there: bool,
    /// Which of the macros `shard` and `replica` are defined.
    macros: Vec<String>,
}

/// Creates the database if it is missing; returns whether its tables are replicated.
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

fn replicated_engine(database: &str) -> String {
    format!("{REPLICATED}('/clickhouse/databases/{{shard}}/{database}', '{{shard}}', '{{replica}}')")
}

/// Returns a `CREATE TABLE` statement with the replicated engine.
pub(super) fn replicated(statement: &str) -> String {
    statement
        .replace("\nENGINE = ReplacingMergeTree", "\nENGINE = ReplicatedReplacingMergeTree")
        .replace("\nENGINE = MergeTree", "\nENGINE = ReplicatedMergeTree")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicates_every_table() {
        let mut tables = 0;
        for statement in store::tables::DDL {
            let written = replicated(statement);
            let is_table = statement.contains("CREATE TABLE");
            assert_eq!(written.contains("\nENGINE = Replicated"), is_table, "{written}");
            assert!(is_table || written == *statement, "{written}");
            tables += usize::from(is_table);
        }
        assert!(tables >= 6, "{tables}");
    }

    #[test]
    fn replicas_of_a_shard_share_a_database() {
        let engine = "Replicated('/clickhouse/databases/{shard}/telemetry', '{shard}', '{replica}')";
        assert_eq!(replicated_engine("telemetry"), engine);
    }
}
