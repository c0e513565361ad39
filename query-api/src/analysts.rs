//! `telemetry query-api analysts`: keeps the accounts of analysts in ClickHouse in step with what they may see
//! (docs/operating/analytics.md#accounts).
//!
//! Must look up anew in each round what each account may see, and must renew no lease but of what it has just found in step: what
//! it cannot look up or cannot change ends by itself.

mod accounts;
mod users_file;

use crate::access::visibility::Visibility;
use crate::read_model::{AnalystView, EXACT_SETTINGS, analyst_views, hosts_condition};
use accounts::Account;
use anyhow::Context;
use clap::Args;
use clickhouse::Client;
use serde::Deserialize;
use service_kit::directory::Directory;
use service_kit::health::Probe;
use service_kit::settings::{ClickHouseSettings, PostgresSettings};
use service_kit::stores;
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use users_file::User;

/// How long views answer after the round that has found them in step began.
const LEASE_MS: i64 = 120_000;
/// A lease that ends sooner than this is renewed.
const RENEW_BEFORE_MS: i64 = 90_000;
/// What one round may take.
const ROUND_DEADLINE: Duration = Duration::from_secs(60);

/// Where users go, and how often it is looked.
#[derive(Args, Clone, Debug)]
pub struct AnalystSettings {
    /// File of users.d of ClickHouse that the accounts of analysts are written into
    #[arg(long = "users-file", env = "TELEMETRY_ANALYST_USERS", value_name = "FILE")]
    pub users_file: PathBuf,
    /// Seconds between two looks at what analysts may see
    #[arg(long = "every", env = "TELEMETRY_ANALYST_EVERY", default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    pub every_seconds: u64,
}

/// What a round found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Accounts whose views are in step.
    pub live: usize,
    /// Accounts whose views wait until ClickHouse has read the file of users.
    pub waiting: usize,
    /// Accounts whose views could not be brought into step.
    pub failed: usize,
    /// Accounts whose views were dropped in this round.
    pub ended: usize,
    /// Views that were made or replaced.
    pub views: usize,
    /// Whether ClickHouse has a file of users to read.
    pub users_changed: bool,
}

impl Round {
    /// One account is no reason to leave the others: what is not in step ends with its lease.
    fn note_failure(&mut self, login: &str, error: &clickhouse::error::Error) {
        tracing::error!(login, "the views of an analyst's account are not in step: {error}");
        self.failed += 1;
    }
}

/// Whether ClickHouse does not know the user yet that a view is to run by.
fn is_unread(error: &clickhouse::error::Error) -> bool {
    error.to_string().contains("(UNKNOWN_USER)")
}

/// Keeps ClickHouse in step.
pub struct Upkeep {
    pool: PgPool,
    directory: Directory,
    clickhouse: Client,
    database: String,
    users_file: PathBuf,
}

/// An account with what it may see.
struct Live {
    account: Account,
    hosts: String,
    generation: u64,
    views: [AnalystView; 4],
}

impl Live {
    fn new(account: Account, seen: &Visibility) -> Self {
        let hosts = hosts_condition(seen);
        let generation = number_of(&hosts);
        let views = analyst_views(seen, &lease(&account.login, generation));
        Self { account, hosts, generation, views }
    }

    fn user(&self) -> User<'_> {
        let Account { login, password_hash, .. } = &self.account;
        User { login, password_hash, hosts: &self.hosts, generation: self.generation }
    }
}

/// The first 64 bits of a digest.
fn number_of(text: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(text).into();
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// On nothing: the lease of an account for these hosts has not run out. A condition that is worked out once, also where there is no row.
fn lease(login: &str, generation: u64) -> String {
    format!(
        "(SELECT throwIf(max(until) <= now64(3), \
           'The views of this account are not in step with what it may see: ask again in a minute, then ask who runs ClickHouse.') \
         FROM analyst_leases WHERE login = '{login}' AND generation = {generation}) = 0"
    )
}

#[derive(clickhouse::Row, Deserialize)]
struct FoundView {
    database: String,
    name: String,
    comment: String,
}

#[derive(clickhouse::Row, Deserialize)]
struct Lease {
    login: String,
    generation: u64,
    until_ms: i64,
}

impl Upkeep {
    /// Connects, and refuses tables that this build does not know.
    pub async fn connect(
        clickhouse: &ClickHouseSettings,
        postgres: &PostgresSettings,
        settings: &AnalystSettings,
    ) -> anyhow::Result<Self> {
        let pool = stores::postgres(postgres)?;
        stores::check_postgres(&pool).await?;
        let mut client = stores::clickhouse(clickhouse)?;
        for (name, value) in EXACT_SETTINGS {
            client = client.with_setting(*name, *value);
        }
        let found = client.query("SELECT count() FROM analyst_leases").fetch_one::<u64>().await;
        found.context("CLICKHOUSE_URL: the leases of analysts cannot be read; run `telemetry stream-workers prepare`, and sign in as telemetry_analysts")?;
        Ok(Self {
            directory: Directory::new(pool.clone()),
            pool,
            clickhouse: client,
            database: clickhouse.clickhouse_database.clone(),
            users_file: settings.users_file.clone(),
        })
    }

    /// What `/ready` asks.
    pub(crate) fn probes(&self) -> Vec<Probe> {
        vec![Probe::database(self.pool.clone()), Probe::clickhouse(self.clickhouse.clone())]
    }

    /// Looks once, and brings ClickHouse into step.
    pub async fn round(&self) -> anyhow::Result<Round> {
        let began_ms: i64 = self.clickhouse.query("SELECT toUnixTimestamp64Milli(now64(3))").fetch_one().await?;
        let (live, ended) = self.look().await?;
        let found = self.views().await?;
        let mut round = Round::default();
        for login in self.left_over(&ended).await? {
            match self.command(&format!("DROP DATABASE {login} SYNC")).await {
                Ok(()) => round.ended += 1,
                Err(error) => round.note_failure(&login, &error),
            }
        }
        let users: Vec<User<'_>> = live.iter().map(Live::user).collect();
        round.users_changed = users_file::write(&self.users_file, &users_file::text(&self.database, &users))?;
        let mut in_step = Vec::new();
        for one in &live {
            match self.make_views(one, &found).await {
                Ok(made) => {
                    round.views += made;
                    in_step.push(one);
                }
                Err(error) if is_unread(&error) => round.waiting += 1,
                Err(error) => round.note_failure(&one.account.login, &error),
            }
        }
        round.live = in_step.len();
        self.renew(&in_step, began_ms).await?;
        Ok(round)
    }

    /// Accounts that may see something at all, and the logins of those that may not any more.
    async fn look(&self) -> anyhow::Result<(Vec<Live>, Vec<String>)> {
        let (mut live, mut ended) = (Vec::new(), Vec::new());
        for account in accounts::all(&self.pool).await? {
            match account.sees(&self.directory).await? {
                Some(seen) => live.push(Live::new(account, &seen)),
                None => ended.push(account.login),
            }
        }
        Ok((live, ended))
    }

    async fn views(&self) -> anyhow::Result<BTreeMap<(String, String), String>> {
        let asked = "SELECT database, name, comment FROM system.tables WHERE startsWith(database, 'telemetry_analyst_')";
        let found: Vec<FoundView> = self.clickhouse.query(asked).fetch_all().await?;
        Ok(found.into_iter().map(|view| ((view.database, view.name), view.comment)).collect())
    }

    /// Databases of accounts that have ended.
    async fn left_over(&self, ended: &[String]) -> anyhow::Result<Vec<String>> {
        let asked = "SELECT name FROM system.databases WHERE startsWith(name, 'telemetry_analyst_')";
        let found: Vec<String> = self.clickhouse.query(asked).fetch_all().await?;
        Ok(found.into_iter().filter(|name| ended.contains(name)).collect())
    }

    /// Makes the views that are missing, and replaces those that are made of something else: each says in its comment what of.
    async fn make_views(
        &self,
        live: &Live,
        found: &BTreeMap<(String, String), String>,
    ) -> Result<usize, clickhouse::error::Error> {
        let login = &live.account.login;
        self.command(&format!("CREATE DATABASE IF NOT EXISTS {login} ENGINE = Atomic")).await?;
        let mut made = 0;
        for view in &live.views {
            let definer = users_file::definer(login);
            let comment = format!("{}. {:016x}", view.comment, number_of(&view.statement(login, &definer, "")));
            if found.get(&(login.clone(), view.name.to_owned())) != Some(&comment) {
                self.command(&view.statement(login, &definer, &comment)).await?;
                made += 1;
            }
        }
        Ok(made)
    }

    async fn renew(&self, in_step: &[&Live], began_ms: i64) -> anyhow::Result<()> {
        let asked = "SELECT login, generation, toUnixTimestamp64Milli(max(until)) AS until_ms FROM analyst_leases GROUP BY login, generation";
        let found: Vec<Lease> = self.clickhouse.query(asked).fetch_all().await?;
        let found: BTreeMap<(String, u64), i64> =
            found.into_iter().map(|lease| ((lease.login, lease.generation), lease.until_ms)).collect();
        let is_due = |one: &&&Live| {
            let until_ms = found.get(&(one.account.login.clone(), one.generation));
            until_ms.is_none_or(|until_ms| *until_ms < began_ms + RENEW_BEFORE_MS)
        };
        let until = format!("fromUnixTimestamp64Milli({}, 'UTC')", began_ms + LEASE_MS);
        let due = in_step.iter().filter(is_due);
        let due: Vec<String> = due.map(|one| format!("('{}', {}, {until})", one.account.login, one.generation)).collect();
        if due.is_empty() {
            return Ok(());
        }
        let insert = format!("INSERT INTO analyst_leases (login, generation, until) VALUES {}", due.join(", "));
        // An insert that waits to be put together with others would be acknowledged before it counts.
        Ok(self.clickhouse.query(&insert).with_setting("async_insert", "0").execute().await?)
    }

    async fn command(&self, statement: &str) -> Result<(), clickhouse::error::Error> {
        self.clickhouse.query(statement).execute().await
    }

    /// Looks again and again until `stop`. A round that fails renews nothing; the next may go well.
    pub async fn run(&self, every: Duration, stop: CancellationToken) {
        let mut rounds = tokio::time::interval(every);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(rounds.tick()).await.is_some() {
            let round = tokio::time::timeout(ROUND_DEADLINE, self.round()).await;
            match round.context("a round took too long").and_then(|round| round) {
                Ok(round) if round.users_changed || round.views > 0 || round.ended > 0 || round.waiting > 0 => {
                    tracing::info!(?round, "the accounts of analysts have changed");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::error!("the accounts of analysts are not in step; after two minutes their views refuse: {error:#}");
                }
            }
        }
    }
}
