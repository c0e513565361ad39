//! Checks that production accounts have no privileges beyond what their service needs.

use super::Role;
use super::clickhouse_grants::{Grant, of_file};
use crate::connections;
use crate::settings::{ClickHouseSettings, PostgresSettings};
use anyhow::ensure;
use sqlx::PgPool;
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    Good,
    /// The server didn't respond or rejected the login.
    NotYet,
}

/// Query for an account's excess privileges; its result completes a sentence after "which".
const BEYOND: &str = include_str!("privileges.sql");

async fn look(pool: &PgPool, role: Role) -> Result<Option<String>, sqlx::Error> {
    let others = Role::ALL.into_iter().filter(|other| *other != role).map(Role::name).collect::<Vec<_>>();
    sqlx::query_scalar(BEYOND).bind(role.name()).bind(others).fetch_one(pool).await
}

fn judge(pool: &PgPool, beyond: Option<String>, role: Role) -> anyhow::Result<()> {
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

/// Rejects a PostgreSQL account with more privileges than its service needs: superusers and role creators; the owner of tables,
/// functions or the schema, who can change the audit trail; the account of another service; and write access that the service's
/// role doesn't have. An unavailable server is an error too.
pub async fn refuse_privileged(settings: &PostgresSettings, role: Role) -> anyhow::Result<()> {
    let pool = connections::postgres(settings)?;
    let found = look(&pool, role).await.map_err(|error| connections::absent_postgres(&pool, &error))?;
    judge(&pool, found, role)
}

/// Like [`refuse_privileged`], but an unavailable server is [`Judged::NotYet`], for services that start without PostgreSQL.
pub async fn refuse_privileged_if_there(settings: &PostgresSettings, role: Role) -> anyhow::Result<Judged> {
    let pool = connections::postgres(settings)?;
    match look(&pool, role).await {
        Ok(found) => judge(&pool, found, role).map(|()| Judged::Good),
        Err(_) => Ok(Judged::NotYet),
    }
}

/// Like [`refuse_privileged`], but retries until the server responds.
pub async fn refuse_privileged_once_there(settings: &PostgresSettings, role: Role) -> anyhow::Result<()> {
    while refuse_privileged_if_there(settings, role).await? == Judged::NotYet {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Rejects a ClickHouse account with more rights on our database or on accounts than the accounts file grants to its service;
/// every service may read. `telemetry stream-workers prepare` and `rebuild` create tables with another account.
pub async fn refuse_privileged_clickhouse(settings: &ClickHouseSettings, role: Role) -> anyhow::Result<()> {
    let asked = connections::clickhouse(settings)?.query("SHOW GRANTS FINAL").fetch_all::<String>().await;
    let granted = asked.map_err(|error| connections::absent_clickhouse(settings, &error))?;
    let needed: Vec<Grant<'_>> = of_file(role).collect();
    let given = granted.iter().filter_map(|grant| Grant::parse(grant));
    let unneeded = given.filter(|grant| grant.concerns(&settings.clickhouse_database)).find_map(|grant| grant.beyond(&needed));
    ensure!(
        unneeded.is_none(),
        "CLICKHOUSE_URL={}: production can't use the account {}, which has the privilege {}; connect as {}, which schemas/clickhouse/accounts.xml defines",
        connections::address(settings),
        connections::clickhouse_user(settings),
        unneeded.unwrap_or_default(),
        role.name()
    );
    Ok(())
}
