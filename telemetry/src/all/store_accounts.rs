//! Each service's store accounts. Each service signs in with its own account, so missing permissions show up here as they do when the
//! services run separately. With `cargo local`, each account has its own password; elsewhere, all use the configured address's password.

use crate::all::Cli;
use service_kit::databases;
use service_kit::roles::{self, Role};
use service_kit::settings::{ClickHouseSettings, PostgresSettings};
use std::time::Duration;

/// Time limit of one connection check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) struct StoreAccounts<'a>(&'a Cli, [ClickHouseSettings; 2]);

impl<'a> StoreAccounts<'a> {
    /// Creates missing accounts, if the configured account may, and the tables, which belong to the configured account.
    pub(crate) async fn prepare(cli: &'a Cli) -> anyhow::Result<Self> {
        let pool = databases::postgres(&cli.postgres)?;
        roles::create_for_development(&cli.postgres).await?;
        databases::migrate_postgres(&pool).await?;
        for role in Role::ALL {
            databases::check_postgres(&databases::postgres(&cli.postgres.signed_in_as(role)?)?).await?;
        }
        stream_workers::prepare(&cli.worker(cli.clickhouse.clone(), cli.postgres.clone())).await?;
        let clickhouse = [clickhouse(cli, Role::Worker).await?, clickhouse(cli, Role::Query).await?];
        Ok(Self(cli, clickhouse))
    }

    pub(crate) fn postgres(&self, role: Role) -> anyhow::Result<PostgresSettings> {
        self.0.postgres.signed_in_as(role)
    }

    /// Returns a service's ClickHouse settings. Only the worker and the query service use ClickHouse.
    pub(crate) fn clickhouse(&self, role: Role) -> ClickHouseSettings {
        let [worker, query] = &self.1;
        if role == Role::Worker { worker.clone() } else { query.clone() }
    }
}

/// Returns the service's own account if it works, otherwise the configured one. ClickHouse accounts are defined in files on the server, so
/// they can't be created from here.
async fn clickhouse(cli: &Cli, role: Role) -> anyhow::Result<ClickHouseSettings> {
    let own = cli.clickhouse.signed_in_as(role)?;
    if databases::clickhouse_responds(&databases::clickhouse(&own)?, CHECK_TIMEOUT).await {
        return Ok(own);
    }
    tracing::warn!(account = role.name(), "cannot sign in to ClickHouse with this account; using the account of CLICKHOUSE_URL");
    Ok(cli.clickhouse.clone())
}
