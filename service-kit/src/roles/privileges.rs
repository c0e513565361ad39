//! What an account could do besides its service's work: production runs on none that could change what it only has to keep.

use super::Role;
use super::clickhouse_grants::{Grant, of_file};
use crate::connections;
use crate::settings::{ClickHouseSettings, PostgresSettings};
use anyhow::ensure;
use sqlx::PgPool;
use std::time::Duration;

/// Between two looks for a server that does not answer.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    Good,
    /// The server did not answer, or let nobody in.
    NotYet,
}

/// What an account of PostgreSQL could do that its service has no need of, in the words that follow "which".
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
        "take that from it, and from PUBLIC".to_owned()
    } else {
        format!("sign in as {}, which `telemetry identity-api migrate` makes", role.name())
    };
    anyhow::bail!("DATABASE_URL={host}:{port}: production does not run as {user}, which {beyond}; {fix}")
}

/// Refuses an account of PostgreSQL that could do more than a service needs: one that may do everything or make others, or the
/// owner of the tables, of a function or of the schema, each of whom can change the audit trail; one of another service; and one
/// that may write what the service's own role may not. A server that does not answer is an error too.
pub async fn refuse_privileged(settings: &PostgresSettings, role: Role) -> anyhow::Result<()> {
    let pool = connections::postgres(settings)?;
    let found = look(&pool, role).await.map_err(|error| connections::absent_postgres(&pool, &error))?;
    judge(&pool, found, role)
}

/// The same for who starts without PostgreSQL: a server that does not answer is not judged yet.
pub async fn refuse_privileged_if_there(settings: &PostgresSettings, role: Role) -> anyhow::Result<Judged> {
    let pool = connections::postgres(settings)?;
    match look(&pool, role).await {
        Ok(found) => judge(&pool, found, role).map(|()| Judged::Good),
        Err(_) => Ok(Judged::NotYet),
    }
}

/// The same, however long it takes until the server answers.
pub async fn refuse_privileged_once_there(settings: &PostgresSettings, role: Role) -> anyhow::Result<()> {
    while refuse_privileged_if_there(settings, role).await? == Judged::NotYet {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Refuses an account of ClickHouse that could do more with our database, or with accounts, than the file of accounts grants its
/// service; to read is granted to all. `telemetry stream-workers prepare` and `rebuild` make tables by an account that may; what runs does
/// not.
pub async fn refuse_privileged_clickhouse(settings: &ClickHouseSettings, role: Role) -> anyhow::Result<()> {
    let asked = connections::clickhouse(settings)?.query("SHOW GRANTS FINAL").fetch_all::<String>().await;
    let granted = asked.map_err(|error| connections::absent_clickhouse(settings, &error))?;
    let needed: Vec<Grant<'_>> = of_file(role).collect();
    let given = granted.iter().filter_map(|grant| Grant::parse(grant));
    let unneeded = given.filter(|grant| grant.concerns(&settings.clickhouse_database)).find_map(|grant| grant.beyond(&needed));
    ensure!(
        unneeded.is_none(),
        "CLICKHOUSE_URL={}: production does not run as {}, which has the right {}; sign in as {}, which schemas/clickhouse/accounts.xml makes",
        connections::address(settings),
        connections::clickhouse_user(settings),
        unneeded.unwrap_or_default(),
        role.name()
    );
    Ok(())
}
