//! PostgreSQL migrations. One command applies them, and services check them at startup.
//!
//! A migration must not remove anything that the previous release uses, because both releases run during an upgrade
//! (`migrations_only_add`).

use crate::database_clients::{rejected_by_postgres, unreachable_postgres};
use crate::roles;
use anyhow::{Context, bail};
use sqlx::PgPool;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("../schemas/postgres");

/// Applies missing migrations and grants each service its privileges. Several processes may run it concurrently.
pub async fn migrate_postgres(pool: &PgPool) -> anyhow::Result<()> {
    drop(pool.acquire().await.map_err(|error| unreachable_postgres(pool, &error))?);
    // Ignore a newer build's migrations: they only add, and this build may be the one being replaced.
    let mut migrations = sqlx::migrate!("../schemas/postgres");
    migrations.set_ignore_missing(true);
    migrations.run(pool).await.context("DATABASE_URL: failed to migrate the tables")?;
    roles::create_missing(pool, |_| None).await?;
    if newest_applied(pool).await? > MIGRATIONS.iter().map(|migration| migration.version).max() {
        // This build doesn't know the grants for the newer tables and would revoke them.
        return Ok(());
    }
    roles::grant(pool).await
}

async fn newest_applied(pool: &PgPool) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(pool).await
}

pub async fn check_postgres(pool: &PgPool) -> anyhow::Result<()> {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max();
    match newest_applied(pool).await {
        Ok(found) if found >= newest => Ok(()),
        Ok(_) => bail!("DATABASE_URL: the tables are older than this build; run `telemetry identity-api migrate`"),
        Err(sqlx::Error::Database(error)) => Err(rejected_by_postgres(pool, error.as_ref())),
        Err(error) => Err(unreachable_postgres(pool, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the part of a migration that the previous release can't handle.
    fn breaks_previous_release(sql: &str) -> Option<String> {
        let words = [
            "DROP TABLE",
            "DROP COLUMN",
            "DROP INDEX",
            "DROP FUNCTION",
            "DROP CONSTRAINT",
            "RENAME",
            "ALTER COLUMN",
            "TRUNCATE TABLE",
        ];
        let statements = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
        let text = statements.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_uppercase();
        let removed = words.into_iter().find(|word| text.contains(word)).map(str::to_owned);
        let added = text.split("ADD COLUMN ").skip(1).map(|rest| rest.split([',', ';']).next().unwrap_or_default());
        let mut required = added.filter(|column| column.contains("NOT NULL") && !column.contains("DEFAULT"));
        removed.or_else(|| required.next().map(str::to_owned))
    }

    #[test]
    fn migrations_only_add() {
        for migration in MIGRATIONS.iter() {
            assert_eq!(breaks_previous_release(migration.sql.as_str()), None, "{}", migration.description);
        }
        let broken = |sql| breaks_previous_release(sql).is_some();
        assert!(broken("ALTER TABLE a DROP COLUMN b;") && broken("ALTER TABLE a ADD COLUMN b text NOT NULL;"));
        assert!(!broken("ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT ''; -- DROP TABLE"));
    }
}
