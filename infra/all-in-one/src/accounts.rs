//! The account with which each service signs in to the stores: its own, although all are one process, so that what a service may
//! not do fails here as it would alone. On a server of `cargo local` each has a password of its own; on another all share that of the
//! address that is set.

use crate::Cli;
use service_kit::roles::{self, Role};
use service_kit::settings::{ClickHouseSettings, PostgresSettings};
use service_kit::stores;
use std::time::Duration;

/// What one look at an account may take.
const LOOK: Duration = Duration::from_secs(3);

/// The stores as each service sees them.
pub(crate) struct Accounts<'a>(&'a Cli, [ClickHouseSettings; 2]);

impl<'a> Accounts<'a> {
    /// Makes the accounts that are missing, where the one that is set may, and the tables, which belong to that one.
    pub(crate) async fn prepare(cli: &'a Cli) -> anyhow::Result<Self> {
        let pool = stores::postgres(&cli.postgres)?;
        roles::create_for_development(&cli.postgres).await?;
        stores::migrate_postgres(&pool).await?;
        for role in Role::ALL {
            stores::check_postgres(&stores::postgres(&cli.postgres.signed_in_as(role)?)?).await?;
        }
        stream_workers::prepare(&cli.worker(cli.clickhouse.clone(), cli.postgres.clone())).await?;
        let clickhouse = [clickhouse(cli, Role::Worker).await?, clickhouse(cli, Role::Query).await?];
        Ok(Self(cli, clickhouse))
    }

    /// PostgreSQL as this service.
    pub(crate) fn postgres(&self, role: Role) -> anyhow::Result<PostgresSettings> {
        self.0.postgres.signed_in_as(role)
    }

    /// ClickHouse as this service; only two use it.
    pub(crate) fn clickhouse(&self, role: Role) -> ClickHouseSettings {
        let [worker, query] = &self.1;
        if role == Role::Worker { worker.clone() } else { query.clone() }
    }
}

/// ClickHouse keeps accounts in files of the server, so that they cannot be made from here.
async fn clickhouse(cli: &Cli, role: Role) -> anyhow::Result<ClickHouseSettings> {
    let own = cli.clickhouse.signed_in_as(role)?;
    if stores::clickhouse_answers(&stores::clickhouse(&own)?, LOOK).await {
        return Ok(own);
    }
    tracing::warn!(account = role.name(), "cannot sign in to ClickHouse with this account; using that of CLICKHOUSE_URL");
    Ok(cli.clickhouse.clone())
}
