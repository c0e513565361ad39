//! `telemetry query-api analysts`: writes analyst accounts and their permissions to ClickHouse
//! (docs/operating/analytics.md#accounts).
//!
//! Each round looks up every account's permissions and extends only those it found. If a lookup or a write fails, the permissions expire.

mod analyst_accounts;
mod permissions;
mod users_file;

use anyhow::Context;
use clap::Args;
use clickhouse::Client;
use permissions::{Permissions, StoredPermissions};
use service_kit::databases;
use service_kit::health::Probe;
use service_kit::identity_tables::IdentityTables;
use service_kit::settings::{ClickHouseSettings, PostgresSettings};
use sqlx::PgPool;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Replaced at each start. The views require their definer, so `telemetry stream-workers prepare` doesn't create them.
const VIEWS: [&str; 3] = [
    include_str!("../../store/clickhouse/analyst_database.sql"),
    include_str!("../../store/clickhouse/analyst_events.sql"),
    include_str!("../../store/clickhouse/analyst_reports.sql"),
];
/// Returns ClickHouse's time in milliseconds since 1970.
const NOW: &str = include_str!("../sql/analysts_now.sql");
/// Time after the start of a round at which the permissions found by it expire.
const VALID_MS: i64 = 120_000;
/// Permissions that expire sooner are extended.
const PROLONG_BEFORE_MS: i64 = 90_000;
const ROUND_DEADLINE: Duration = Duration::from_secs(60);
/// `telemetry identity-api admin analyst create` fails if the last round was too long ago.
const RECORD_ROUND: &str =
    "INSERT INTO analyst_upkeep (seen_at) VALUES (now()) ON CONFLICT (is_only) DO UPDATE SET seen_at = now()";

#[derive(Args, Clone, Debug)]
pub struct AnalystSettings {
    /// File in ClickHouse's users.d directory for analyst accounts
    #[arg(long = "users-file", env = "TELEMETRY_ANALYST_USERS", value_name = "FILE")]
    pub users_file: PathBuf,
    /// Interval between synchronizations, in seconds
    #[arg(long = "every", env = "TELEMETRY_ANALYST_EVERY", default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    pub every_seconds: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncResult {
    /// Accounts that can read.
    pub live: usize,
    /// Accounts whose permissions were stored, because they are new, changed, ended or extended.
    pub stored: usize,
    pub users_changed: bool,
}

/// Synchronizes analyst accounts from PostgreSQL to ClickHouse.
pub struct AnalystSync {
    pool: PgPool,
    directory: IdentityTables,
    clickhouse: Client,
    users_file: PathBuf,
}

impl AnalystSync {
    /// Connects, and creates or replaces the views.
    ///
    /// # Errors
    ///
    /// Fails if a store is unreachable, or lacks the table or user for analyst accounts.
    pub async fn connect(
        clickhouse: &ClickHouseSettings,
        postgres: &PostgresSettings,
        settings: &AnalystSettings,
    ) -> anyhow::Result<Self> {
        let pool = databases::postgres(postgres)?;
        databases::check_postgres(&pool).await?;
        let clickhouse = databases::clickhouse(clickhouse)?;
        for statement in VIEWS {
            clickhouse.query_raw(statement).execute().await.context(
                "CLICKHOUSE_URL: failed to create the views of analysts; run `telemetry stream-workers prepare`, put \
                 schemas/clickhouse/analysts.xml into users.d of ClickHouse, and sign in as telemetry_analysts",
            )?;
        }
        let users_file = settings.users_file.clone();
        Ok(Self { directory: IdentityTables::new(pool.clone()), pool, clickhouse, users_file })
    }

    pub(crate) fn probes(&self) -> Vec<Probe> {
        vec![Probe::database(self.pool.clone()), Probe::clickhouse(self.clickhouse.clone())]
    }

    /// Runs one round. Stores permissions before writing the users file, so a new account can't read anything before its permissions exist.
    ///
    /// # Errors
    ///
    /// Fails if a store fails or the file can't be written. The next round repeats the missing steps.
    pub async fn round(&self) -> anyhow::Result<SyncResult> {
        let began_ms: i64 = self.clickhouse.query_raw(NOW).fetch_one().await?;
        let stored = StoredPermissions::load(&self.clickhouse).await?;
        let (mut live, mut due) = (Vec::new(), Vec::new());
        for account in analyst_accounts::all(&self.pool).await? {
            match account.visibility(&self.directory).await? {
                Some(seen) => {
                    let rights = Permissions::new(&account.login, &seen);
                    if !stored.has(&rights, began_ms + PROLONG_BEFORE_MS) {
                        due.push(rights.row(began_ms, began_ms + VALID_MS));
                    }
                    live.push(account);
                }
                None if stored.is_valid(&account.login, began_ms) => due.push(permissions::ended(account.login, began_ms)),
                None => {}
            }
        }
        permissions::store(&self.clickhouse, &due).await?;
        let users_changed = users_file::write(&self.users_file, &users_file::text(&live))?;
        sqlx::query(RECORD_ROUND).execute(&self.pool).await?;
        Ok(SyncResult { live: live.len(), stored: due.len(), users_changed })
    }

    /// Runs rounds until `stop`. A failed round doesn't extend permissions.
    pub async fn run(&self, every: Duration, stop: CancellationToken) {
        let mut rounds = tokio::time::interval(every);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(rounds.tick()).await.is_some() {
            let round = tokio::time::timeout(ROUND_DEADLINE, self.round()).await;
            match round.context("the round took too long").and_then(|round| round) {
                Ok(round) if round.users_changed => tracing::info!(?round, "analyst accounts changed"),
                Ok(_) => {}
                Err(error) => {
                    tracing::error!("failed to check analyst accounts; their statements will fail after two minutes: {error:#}");
                }
            }
        }
    }
}
