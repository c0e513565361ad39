//! Tables that read all shards (docs/operating/scaling.md#clickhouse-shards).

use super::clickhouse_contract::Contract;
use crate::database_clients::{clickhouse_server, unreachable_clickhouse};
use crate::settings::ClickHouseSettings;
use anyhow::{Context as _, ensure};

/// Suffix of the database that contains these tables.
const SUFFIX: &str = "_all";

#[must_use]
pub fn for_all_shards(settings: &ClickHouseSettings) -> ClickHouseSettings {
    ClickHouseSettings { clickhouse_database: format!("{}{SUFFIX}", settings.clickhouse_database), ..settings.clone() }
}

/// Creates tables on this server that read the tables of `settings` on all servers of a cluster. The tables are in a database with the
/// suffix `_all` and are not used for inserts.
///
/// # Errors
///
/// Fails if the server's configuration doesn't contain the cluster.
pub async fn create_distributed_tables(settings: &ClickHouseSettings, cluster: &str) -> anyhow::Result<()> {
    let server = clickhouse_server(settings)?;
    let known = server.query("SELECT count() FROM system.clusters WHERE cluster = ?").bind(cluster);
    let known: u64 = known.fetch_one().await.map_err(|error| unreachable_clickhouse(settings, &error))?;
    ensure!(known > 0, "the server's remote_servers don't contain the cluster {cluster}: add it with all shards");
    let all = for_all_shards(settings).clickhouse_database;
    let create_database = format!("CREATE DATABASE IF NOT EXISTS {all} ENGINE = Atomic");
    server.query(&create_database).execute().await.map_err(|error| unreachable_clickhouse(settings, &error))?;
    for contract in store::tables::DDL.iter().filter_map(|statement| Contract::parse(statement)) {
        let (table, database) = (contract.name, &settings.clickhouse_database);
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {all}.{table} AS {database}.{table} ENGINE = Distributed('{cluster}', '{database}', '{table}')"
        );
        server.query(&create).execute().await.with_context(|| format!("failed to create {all}.{table}"))?;
    }
    Ok(())
}
