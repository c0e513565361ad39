//! The services' PostgreSQL and ClickHouse accounts, with the grants in `schemas/postgres/roles/grants.sql` and
//! `schemas/clickhouse/accounts.xml`, and the check that production accounts have no further privileges (`excess_privileges`).

mod clickhouse_grants;
mod excess_privileges;

pub use excess_privileges::{
    PrivilegeCheck, reject_excess_clickhouse_privileges, reject_excess_privileges, reject_excess_privileges_if_available,
    reject_excess_privileges_when_available,
};

use crate::database_clients;
use crate::settings::{ClickHouseSettings, PostgresSettings};
use anyhow::{Context, ensure};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;

const GRANTS: &str = include_str!("../../schemas/postgres/roles/grants.sql");

/// Advisory lock, used only for grants.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('telemetry.grants'))";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Gateway,
    Worker,
    Deliverer,
    Query,
    Identity,
}

impl Role {
    pub const ALL: [Self; 5] = [Self::Gateway, Self::Worker, Self::Deliverer, Self::Query, Self::Identity];

    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "telemetry_gateway",
            Self::Worker => "telemetry_worker",
            Self::Deliverer => "telemetry_deliverer",
            Self::Query => "telemetry_query",
            Self::Identity => "telemetry_identity",
        }
    }
}

impl PostgresSettings {
    /// Returns the same database with the role's user and development password.
    pub fn signed_in_as(&self, role: Role) -> anyhow::Result<Self> {
        Ok(Self { database_url: renamed(&self.database_url, role).context("DATABASE_URL: not a URL with a host")? })
    }
}

impl ClickHouseSettings {
    /// Returns the same database with the role's user and development password.
    pub fn signed_in_as(&self, role: Role) -> anyhow::Result<Self> {
        let url = renamed(&self.clickhouse_url, role).context("CLICKHOUSE_URL: not an HTTP URL with a host")?;
        Ok(Self { clickhouse_url: url, ..self.clone() })
    }
}

fn renamed(address: &str, role: Role) -> Option<String> {
    let mut url = url::Url::parse(address).ok()?;
    if let Some(own) = url.password().and_then(|password| own_password(url.username(), password, role)) {
        url.set_password(Some(&own)).ok()?;
    }
    url.set_username(role.name()).ok()?;
    Some(url.into())
}

/// Returns a service's password on a `cargo local` server, derived from the password of the administrator or table owner; `None` if all
/// accounts share one password.
fn own_password(user: &str, password: &str, role: Role) -> Option<String> {
    const ROOT: &str = "each";
    let follow = |password: &str, account: &str| HEXLOWER.encode(&Sha256::digest(format!("{password} {account}")));
    let is_administrators = user == "telemetry";
    let owners =
        || if is_administrators { format!("{ROOT}{}", follow(password, "telemetry_owner")) } else { password.to_owned() };
    password.starts_with(ROOT).then(|| follow(&owners(), role.name()))
}

/// Creates missing roles in PostgreSQL with the passwords used by [`PostgresSettings::signed_in_as`]. For development.
pub async fn create_for_development(settings: &PostgresSettings) -> anyhow::Result<()> {
    let own = |role| settings.signed_in_as(role).ok().and_then(|own| password(&own.database_url));
    create_missing(&database_clients::postgres(settings)?, own).await
}

/// Returns the password without URL escapes.
fn password(address: &str) -> Option<String> {
    let url = url::Url::parse(address).ok()?;
    let escaped = url.password()?.replace('+', "%2B").replace('&', "%26");
    url::form_urlencoded::parse(format!("p={escaped}").as_bytes()).next().map(|(_, password)| password.into_owned())
}

/// Creates missing roles in PostgreSQL. A role without a password can't log in until an administrator sets one. Several processes may run
/// it concurrently.
pub(crate) async fn create_missing(pool: &PgPool, password: impl Fn(Role) -> Option<String>) -> anyhow::Result<()> {
    let missing = missing(pool).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let may: bool = sqlx::query_scalar("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
        .fetch_one(pool)
        .await
        .context("DATABASE_URL: failed to look up the services' roles")?;
    let statement = |role: &Role| format!("CREATE ROLE {} LOGIN", role.name());
    ensure!(
        may,
        "DATABASE_URL: the user {} can't create roles; an administrator must run: {}; set a password for each role, then run this command again",
        pool.connect_options().get_username(),
        missing.iter().map(statement).collect::<Vec<_>>().join("; ")
    );
    for role in missing {
        let statement = statement(&role);
        let password = password(role).map(|password| format!(" PASSWORD '{}'", password.replace('\'', "''"))).unwrap_or_default();
        match sqlx::raw_sql(sqlx::AssertSqlSafe(statement.clone() + &password)).execute(pool).await {
            Err(sqlx::Error::Database(refusal)) if is_there_already(refusal.code().as_deref()) => {}
            made => _ = made.with_context(|| format!("DATABASE_URL: {statement} failed"))?,
        }
    }
    Ok(())
}

/// `duplicate_object`, or `unique_violation` if another process creates the role at the same time.
fn is_there_already(code: Option<&str>) -> bool {
    matches!(code, Some("42710" | "23505"))
}

async fn missing(pool: &PgPool) -> anyhow::Result<Vec<Role>> {
    let names = Role::ALL.map(|role| role.name().to_owned());
    let found: Vec<String> = sqlx::query_scalar("SELECT rolname::text FROM pg_roles WHERE rolname = ANY($1)")
        .bind(&names[..])
        .fetch_all(pool)
        .await
        .context("DATABASE_URL: failed to look up the services' roles")?;
    Ok(Role::ALL.into_iter().filter(|role| !found.iter().any(|found| found == role.name())).collect())
}

/// Grants each role its privileges and revokes all others in one transaction, so running services aren't interrupted.
pub(crate) async fn grant(pool: &PgPool) -> anyhow::Result<()> {
    let granted = async {
        let mut transaction = pool.begin().await?;
        sqlx::query(LOCK).execute(&mut *transaction).await?;
        sqlx::raw_sql(GRANTS).execute(&mut *transaction).await?;
        transaction.commit().await
    };
    granted.await.context("DATABASE_URL: failed to grant the services their privileges; connect as the owner of the tables")
}

/// Returns the statement that only a server administrator can run: it revokes the creation of large objects, which PostgreSQL grants to
/// everyone. `None` if it is no longer needed.
pub async fn statement_for_administrator(pool: &PgPool) -> anyhow::Result<Option<String>> {
    let statement = sqlx::query_scalar(
        "SELECT 'REVOKE EXECUTE ON FUNCTION ' || string_agg(oid::regprocedure::text, ', ' ORDER BY oid) || ' FROM PUBLIC' \
         FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^lo(_|read$|write$)' \
         AND has_function_privilege('public', oid, 'EXECUTE')",
    );
    statement.fetch_one(pool).await.context("DATABASE_URL: failed to look up the server's functions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_account_in_a_url() {
        let postgres = PostgresSettings { database_url: "postgres://telemetry:p%40ss@db:5433/x?sslmode=require".into() };
        let query = postgres.signed_in_as(Role::Query).unwrap();
        assert_eq!(query.database_url, "postgres://telemetry_query:p%40ss@db:5433/x?sslmode=require");
        assert_eq!(password(&query.database_url).as_deref(), Some("p@ss"));
        assert_eq!(password("postgres://u:a+b&c=%2F@db/x").as_deref(), Some("a+b&c=/"));
        assert_eq!(password("postgres://u@db/x"), None);
        let clickhouse = ClickHouseSettings::at("http://127.0.0.1:8123", "x").signed_in_as(Role::Worker).unwrap();
        assert_eq!(clickhouse.clickhouse_url, "http://telemetry_worker@127.0.0.1:8123/");
    }
}
