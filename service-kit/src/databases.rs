//! Creates and checks the tables of PostgreSQL and ClickHouse.

mod postgres_migrations;
mod clickhouse_contract;
mod clickhouse_version;
mod distributed_tables;

pub use crate::database_clients::{clickhouse, clickhouse_responds, postgres, postgres_responds, postgres_with};
pub use distributed_tables::{create_distributed_tables, for_all_shards};
pub use postgres_migrations::{check_postgres, migrate_postgres};

use crate::database_clients::{address, clickhouse_server, unreachable_clickhouse};
use crate::settings::ClickHouseSettings;
use anyhow::Context;
use clickhouse_contract::Contract;

/// Rejects ClickHouse versions that count wrongly. Sends no settings, because an older server may not know them.
async fn check_version(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let found: Result<String, _> = clickhouse_server(settings)?.query("SELECT version()").fetch_one().await;
    let found = found.map_err(|error| unreachable_clickhouse(settings, &error))?;
    clickhouse_version::refuse(&found).map_err(|why| anyhow::anyhow!("CLICKHOUSE_URL={}: {why}", address(settings)))
}

/// Creates missing tables, and the database if necessary.
pub async fn apply_clickhouse_ddl(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    check_version(settings).await?;
    let create = format!("CREATE DATABASE IF NOT EXISTS {} ENGINE = Atomic", settings.clickhouse_database);
    clickhouse_server(settings)?.query(&create).execute().await.map_err(|error| unreachable_clickhouse(settings, &error))?;
    let client = clickhouse(settings)?;
    for statement in store::tables::DDL {
        // Escape question marks, because the client treats them as placeholders.
        let created = client.query(&statement.replace('?', "??")).execute().await;
        created.context("CLICKHOUSE_URL: failed to create a table")?;
    }
    Ok(())
}

/// Rejects tables whose columns, engine or keys differ from this build's. Checks every table that the account can read.
pub async fn check_clickhouse(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    check_version(settings).await?;
    let client = clickhouse(settings)?;
    for contract in store::tables::DDL.iter().filter_map(|statement| Contract::parse(statement)) {
        let found = contract.find(&client).await.map_err(|error| unreachable_clickhouse(settings, &error))?;
        // The account doesn't see tables that it can't read.
        if found.is_some() || contract.is_readable(&client).await.map_err(|error| unreachable_clickhouse(settings, &error))? {
            contract.check(found.as_ref())?;
        }
    }
    Ok(())
}
