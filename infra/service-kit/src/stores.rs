//! The tables of PostgreSQL and ClickHouse: applied and checked.
//!
//! Must not hold a query of any service; those stand in the file of their noun.

mod postgres_migrations;
mod clickhouse_contract;
mod clickhouse_version;
mod replicas;
mod shards;

pub use crate::connections::{clickhouse, clickhouse_answers, postgres, postgres_answers, postgres_with};
pub use postgres_migrations::{check_postgres, migrate_postgres};
pub use shards::{CLUSTER, below_watermark, check_cluster, clickhouse_shards, forget_watermarks, refuse_shards};

use crate::connections::{absent_clickhouse, address, clickhouse_server};
use crate::retrieval_index;
use crate::settings::ClickHouseSettings;
use anyhow::{Context, bail};
use clickhouse_contract::table;

/// Refuses a server that counts wrongly. By a client without any setting: an older server may not know it.
async fn check_version(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let found: Result<String, _> = clickhouse_server(settings)?.query("SELECT version()").fetch_one().await;
    let found = found.map_err(|error| absent_clickhouse(settings, &error))?;
    clickhouse_version::refuse(&found).map_err(|why| anyhow::anyhow!("CLICKHOUSE_URL={}: {why}", address(settings)))
}

/// Creates the database and the tables that are missing, on every shard.
pub async fn apply_clickhouse_ddl(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    shards::check_setting(settings)?;
    let each = settings.each_shard();
    for (number, shard) in each.iter().enumerate() {
        apply_ddl_of_one(shard, shards::Place { number, of: each.len() }).await?;
    }
    Ok(())
}

async fn apply_ddl_of_one(settings: &ClickHouseSettings, place: shards::Place) -> anyhow::Result<()> {
    check_version(settings).await?;
    let is_replicated = replicas::create_database(settings).await?;
    let client = clickhouse(settings)?;
    for statement in place.ddl() {
        let statement = if is_replicated { replicas::replicated(&statement) } else { statement };
        client.query(&statement).execute().await.context("CLICKHOUSE_URL: a table cannot be created")?;
    }
    shards::take(settings, place).await?;
    retrieval_index::fill(settings).await
}

/// Refuses tables whose engine, keys or settings would break exactness, and those of another shard.
pub async fn check_clickhouse(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    shards::check_setting(settings)?;
    let each = settings.each_shard();
    for (number, shard) in each.iter().enumerate() {
        check_one(shard, shards::Place { number, of: each.len() }).await?;
    }
    Ok(())
}

async fn check_one(settings: &ClickHouseSettings, place: shards::Place) -> anyhow::Result<()> {
    check_version(settings).await?;
    let client = clickhouse(settings)?;
    for contract in schemas::store::CLICKHOUSE_TABLES {
        let found = table(contract.table, &client).await.map_err(|error| absent_clickhouse(settings, &error))?;
        let Some(found) = found else {
            bail!("table {} does not exist: create it with `telemetry stream-workers prepare`", contract.table)
        };
        // By which keys its rows merge depends on where it stands.
        shards::check(settings, place).await?;
        found.keep(contract, place.sorting_key(contract.sorting_key))?;
        found.keep_settings()?;
    }
    retrieval_index::check(settings, place.sorting_key(schemas::store::RETRIEVAL_INDEX_KEY)).await
}
