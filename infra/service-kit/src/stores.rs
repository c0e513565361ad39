//! The tables of PostgreSQL and ClickHouse: applied and checked.
//!
//! Must not hold a query of any service; those stand in the file of their noun.

mod contract;
mod replicas;
mod shards;
mod version;

pub use crate::connections::{clickhouse, clickhouse_answers, postgres, postgres_answers, postgres_with};
pub use shards::{CLUSTER, below_watermark, check_cluster, clickhouse_shards, forget_watermarks, refuse_shards};

use crate::connections::{absent_clickhouse, absent_postgres, address, clickhouse_server, refusing_postgres};
use crate::retrieval_index;
use crate::roles;
use crate::settings::ClickHouseSettings;
use anyhow::{Context, bail};
use contract::table;
use sqlx::PgPool;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../../schemas/postgres");

/// Brings the tables of PostgreSQL up to this build, and what each service may do with them; safe when several processes start at
/// once.
pub async fn migrate_postgres(pool: &PgPool) -> anyhow::Result<()> {
    drop(pool.acquire().await.map_err(|error| absent_postgres(pool, &error))?);
    // One that a newer build has applied is left alone: the steps only add, and this build may be on its way out.
    let mut migrations = sqlx::migrate!("../../schemas/postgres");
    migrations.set_ignore_missing(true);
    migrations.run(pool).await.context("DATABASE_URL: the tables cannot be brought up to date")?;
    roles::create_missing(pool, |_| None).await?;
    if newest_applied(pool).await? > MIGRATIONS.iter().map(|migration| migration.version).max() {
        // This build does not know whose the newer tables are, and would take them from everybody.
        return Ok(());
    }
    roles::grant(pool).await
}

async fn newest_applied(pool: &PgPool) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(pool).await
}

/// Refuses to run on tables that this build does not know.
pub async fn check_postgres(pool: &PgPool) -> anyhow::Result<()> {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max();
    match newest_applied(pool).await {
        Ok(found) if found >= newest => Ok(()),
        Ok(_) => bail!("DATABASE_URL: the tables are older than this build; run `telemetry identity-api migrate`"),
        Err(sqlx::Error::Database(error)) => Err(refusing_postgres(pool, error.as_ref())),
        Err(error) => Err(absent_postgres(pool, &error)),
    }
}

/// Refuses a server that counts wrongly. By a client without any setting: an older server may not know it.
async fn check_version(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let found: Result<String, _> = clickhouse_server(settings)?.query("SELECT version()").fetch_one().await;
    let found = found.map_err(|error| absent_clickhouse(settings, &error))?;
    version::refuse(&found).map_err(|why| anyhow::anyhow!("CLICKHOUSE_URL={}: {why}", address(settings)))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody ran what came before.
    const FIRST_TO_UPGRADE: i64 = 11;

    #[test]
    fn migrations_only_add() {
        let words =
            ["DROP TABLE", "DROP COLUMN", "DROP INDEX", "DROP FUNCTION", "DROP CONSTRAINT", "RENAME", "ALTER COLUMN", "TRUNCATE"];
        for migration in MIGRATIONS.iter().filter(|migration| migration.version >= FIRST_TO_UPGRADE) {
            let statements = migration.sql.as_str().lines().map(|line| line.split("--").next().unwrap_or_default());
            let text = statements.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_uppercase();
            for word in words {
                let taken = text.contains(word);
                assert!(!taken, "{}: {word} takes something from processes of the build before", migration.description);
            }
            let added = text.split("ADD COLUMN ").skip(1).map(|rest| rest.split([',', ';']).next().unwrap_or_default());
            for column in added.filter(|column| column.contains("NOT NULL")) {
                let has_default = column.contains("DEFAULT");
                assert!(has_default, "{}: a build that does not know {column} cannot write a row", migration.description);
            }
        }
    }
}
