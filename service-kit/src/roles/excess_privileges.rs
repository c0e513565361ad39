//! Checks that production accounts have no privileges beyond what their service needs.

use super::Role;
use super::clickhouse_grants::{Grant, expected_grants};
use crate::database_clients;
use crate::settings::{ClickHouseSettings, PostgresSettings};
use anyhow::ensure;
use sqlx::PgPool;
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivilegeCheck {
    Passed,
    /// The server didn't respond or rejected the login.
    Unavailable,
}

/// Query for an account's excess privileges. Its result completes a sentence after "which".
const BEYOND: &str = include_str!("privileges.sql");

async fn find_excess_privileges(pool: &PgPool, role: Role) -> Result<Option<String>, sqlx::Error> {
    let others = Role::ALL.into_iter().filter(|other| *other != role).map(Role::name).collect::<Vec<_>>();
    sqlx::query_scalar(BEYOND).bind(role.name()).bind(others).fetch_one(pool).await
}

fn reject_excess(pool: &PgPool, beyond: Option<String>, role: Role) -> anyhow::Result<()> {
    let Some(beyond) = beyond else { return Ok(()) };
    let options = pool.connect_options();
    let (host, port, user) = (options.get_host(), options.get_port(), options.get_username());
    let fix = if user == role.name() {
        "remove this privilege from it and from PUBLIC".to_owned()
    } else {
        format!("connect as {}, which `telemetry identity-api migrate` creates", role.name())
    };
    anyhow::bail!("DATABASE_URL={host}:{port}: production can't use the account {user}, which {beyond}; {fix}")
}

/// Rejects a PostgreSQL account with more privileges than its service needs: superusers and role creators; owners of tables, functions or
/// the schema, who can change the audit trail; another service's account; and write access that the service's role doesn't have. An
/// unavailable server is an error too.
pub async fn reject_excess_privileges(settings: &PostgresSettings, role: Role) -> anyhow::Result<()> {
    let pool = database_clients::postgres(settings)?;
    let found =
        find_excess_privileges(&pool, role).await.map_err(|error| database_clients::unreachable_postgres(&pool, &error))?;
    reject_excess(&pool, found, role)
}

/// Like [`reject_excess_privileges`], but returns [`PrivilegeCheck::Unavailable`] for an unavailable server, for services that start
/// without PostgreSQL.
pub async fn reject_excess_privileges_if_available(settings: &PostgresSettings, role: Role) -> anyhow::Result<PrivilegeCheck> {
    let pool = database_clients::postgres(settings)?;
    match find_excess_privileges(&pool, role).await {
        Ok(found) => reject_excess(&pool, found, role).map(|()| PrivilegeCheck::Passed),
        Err(_) => Ok(PrivilegeCheck::Unavailable),
    }
}

/// Like [`reject_excess_privileges`], but retries until the server responds.
pub async fn reject_excess_privileges_when_available(settings: &PostgresSettings, role: Role) -> anyhow::Result<()> {
    while reject_excess_privileges_if_available(settings, role).await? == PrivilegeCheck::Unavailable {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Rejects a ClickHouse account with more rights on our database or on accounts than the accounts file grants to its service; every service
/// may read. `telemetry stream-workers prepare` and `rebuild` create tables with another account.
pub async fn reject_excess_clickhouse_privileges(settings: &ClickHouseSettings, role: Role) -> anyhow::Result<()> {
    let asked = database_clients::clickhouse(settings)?.query("SHOW GRANTS FINAL").fetch_all::<String>().await;
    let granted = asked.map_err(|error| database_clients::unreachable_clickhouse(settings, &error))?;
    let needed: Vec<Grant<'_>> = expected_grants(role).collect();
    let given = granted.iter().filter_map(|grant| Grant::parse(grant));
    let unneeded =
        given.filter(|grant| grant.concerns(&settings.clickhouse_database)).find_map(|grant| grant.first_excess_right(&needed));
    ensure!(
        unneeded.is_none(),
        "CLICKHOUSE_URL={}: production can't use the account {}, which has the privilege {}; connect as {}, which schemas/clickhouse/accounts.xml defines",
        database_clients::address(settings),
        database_clients::clickhouse_user(settings),
        unneeded.unwrap_or_default(),
        role.name()
    );
    Ok(())
}
