//! A private PostgreSQL server with our tables, usable with any account.

use local::test_servers::Postgres;
use service_kit::databases;
use service_kit::roles::Role;
use service_kit::settings::PostgresSettings;
use sqlx::PgPool;
use tempfile::TempDir;

pub(crate) struct Database {
    _server: Postgres,
    _folder: TempDir,
    pub(crate) admin: PostgresSettings,
    pub(crate) pool: PgPool,
}

impl Database {
    pub(crate) async fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        let server = tokio::task::spawn_blocking(move || Postgres::start(&at).unwrap()).await.unwrap();
        let admin = PostgresSettings { database_url: server.url() };
        Self { pool: databases::postgres(&admin).unwrap(), admin, _server: server, _folder: folder }
    }

    pub(crate) async fn migrated() -> Self {
        let database = Self::empty().await;
        databases::migrate_postgres(&database.pool).await.unwrap();
        database
    }

    pub(crate) fn signed_in_as(&self, role: Role) -> PgPool {
        databases::postgres(&self.admin.signed_in_as(role).unwrap()).unwrap()
    }

    /// Returns the same database with a user that isn't one of the roles.
    pub(crate) fn as_user(&self, name: &str) -> PostgresSettings {
        PostgresSettings { database_url: self.admin.database_url.replacen("//telemetry@", &format!("//{name}@"), 1) }
    }

    pub(crate) async fn admin(&self, statement: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&self.pool).await.unwrap();
    }
}

/// Runs a statement that must fail because of missing privileges. Returns the error.
pub(crate) async fn refusal(pool: &PgPool, statement: &str) -> String {
    let outcome = sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(pool).await;
    let Err(sqlx::Error::Database(refused)) = outcome else { panic!("{statement} must be rejected: {outcome:?}") };
    assert_eq!(refused.code().as_deref(), Some("42501"), "{statement}: {refused}");
    refused.to_string()
}
