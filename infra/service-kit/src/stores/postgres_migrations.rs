//! The migrations of PostgreSQL: brought up to this build by one command, and by a service that starts only checked.
//!
//! Must never take anything from the build before, which runs beside this one during an upgrade.

use crate::connections::{absent_postgres, refusing_postgres};
use crate::roles;
use anyhow::{Context, bail};
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
