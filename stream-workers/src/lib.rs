//! Reads the log and merges it into ClickHouse: one row per event, one per report. [`deliver`] runs in a separate process.
//!
//! The worker is a writer (docs/operating/writer.md). One process is the active writer, the others stand by:
//!
//! 1. Read records into a block until it is 500 ms old, 99,000 events or 32 MiB large, and decode each (`consume`, `record`). A record
//!    that can't be decoded becomes a dead letter (`dead_letters`).
//! 2. Write the sessions, and look up the click tokens and agents that the gateway could not look up (`resolve`). While PostgreSQL is
//!    unavailable, blocks that need it wait.
//! 3. Wait until the brokers have acknowledged the block's dead letters.
//! 4. Merge the block with the current rows of its events (`store::merge`) and insert `sites`, `reports`, `events`, `failed_fetches` and
//!    `progress`, in this order (`writer`). Repeat a statement until its outcome is known.
//!
//! Between blocks, the active writer processes replays: requests to store a part of the log again (`replay`, `writer::replay`).
//!
//! `progress` contains the offset at which the next block starts. If a writer crashes before that insert, its successor completes the rows.
//! Nothing is counted twice, because storing a report again has no effect (invariants 3 and 10).

mod processed;
mod replay;
mod writer;
mod dead_letters;
mod resolve;
mod consume;
mod record;
mod retention_settings;
pub mod deliver;
mod metrics;

pub use consume::partition_stats;
pub use dead_letters::RejectedCommand;
pub use metrics::METRICS;
pub use processed::progress_by_partition;
pub use record::dry_run;
pub use replay::rebuild::{RebuildOptions, rebuild};
pub use replay::{ReplayOptions, replay};
pub use retention_settings::RetentionSettings;
pub use writer::EventLoader;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use schemas::shard::Shard;
use service_kit::command_output::OutputOptions;
use service_kit::health::{self, Probe};
use service_kit::metric_definitions;
use service_kit::process::Process;
use service_kit::roles::{self, PrivilegeCheck, Role};
use service_kit::settings::{ClickHouseSettings, KafkaSettings, ModeSettings, PostgresSettings, ProcessSettings, Profile};
use service_kit::{databases, http, kafka, observability, openapi, process, server};
use std::process::ExitCode;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Remove duplicates, write to ClickHouse and deliver webhooks
#[derive(Parser, Clone, Debug)]
#[command(name = "stream-workers", version, subcommand_negates_reqs = true)]
pub struct Cli {
    /// Command to run; default: the worker
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Listener and log
    #[command(flatten)]
    pub process: ProcessSettings,
    /// Settings of the worker; `deliver` and `health` don't need them
    #[command(flatten)]
    pub settings: ModeSettings<Settings>,
}

/// Subcommands of `telemetry stream-workers`.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Run the worker (default)
    Run,
    /// Deliver webhooks; needs only PostgreSQL
    Deliver(deliver::DeliverSettings),
    /// Check whether the running process on this machine is healthy
    Health,
    /// Create missing topics and tables
    Prepare(PrepareOptions),
    /// Store part of the log again, next to live traffic
    Replay(ReplayOptions),
    /// Fill an empty database from the log
    Rebuild(RebuildOptions),
    /// Show how much of the log is stored, and the outcome of its records
    Processed(OutputOptions),
    /// List, show and retry dead letters
    #[command(subcommand)]
    Rejected(RejectedCommand),
}

/// Options of `prepare`.
#[derive(Args, Clone, Debug, Default)]
pub struct PrepareOptions {
    /// ClickHouse cluster with all shards; creates a database with the suffix _all that reads every shard
    #[arg(long, env = "TELEMETRY_CLICKHOUSE_CLUSTER", value_name = "NAME", value_parser = cluster_name)]
    cluster: Option<String>,
}

impl PrepareOptions {
    async fn prepare(&self, settings: &Settings) -> anyhow::Result<()> {
        prepare(settings).await?;
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let created = databases::create_distributed_tables(&settings.clickhouse, cluster).await;
        created.with_context(|| format!("TELEMETRY_CLICKHOUSE_CLUSTER={cluster}"))
    }
}

/// Validates the name, because it becomes part of a statement that creates tables.
fn cluster_name(name: &str) -> Result<String, String> {
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    is_plain.then(|| name.to_owned()).ok_or_else(|| "use letters, digits, underscores and hyphens".to_owned())
}

/// A worker's settings, without its listener.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Kafka
    #[command(flatten)]
    pub kafka: KafkaSettings,
    /// ClickHouse
    #[command(flatten)]
    pub clickhouse: ClickHouseSettings,
    /// PostgreSQL, for click tokens and sessions
    #[command(flatten)]
    pub postgres: PostgresSettings,
    /// Tuning
    #[command(flatten)]
    pub tuning: Tuning,
    /// Retention
    #[command(flatten)]
    pub keep: RetentionSettings,
}

impl Settings {
    /// In production, rejects settings that are only safe for development.
    pub fn harden(mut self, profile: Profile) -> anyhow::Result<Self> {
        if profile.is_production() {
            self.kafka.harden()?;
            self.clickhouse.harden()?;
            self.postgres.harden()?;
        }
        Ok(self)
    }
}

/// Settings that tune a worker.
#[derive(Args, Clone, Debug)]
pub struct Tuning {
    /// Consumer group for committed offsets, so that tools can show the lag
    #[arg(long = "group", env = "TELEMETRY_GROUP", default_value = "stream-workers")]
    pub group: String,
    /// Maximum age of a block before it is inserted, in milliseconds
    #[arg(long, env = "TELEMETRY_BLOCK_AGE_MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    pub block_age_ms: u64,
    /// Milliseconds without a heartbeat after which a standby worker takes over
    #[arg(long, env = "TELEMETRY_TAKEOVER_AFTER_MS", default_value_t = 8_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub takeover_after_ms: u64,
    /// This worker's shard, such as 2/3; CLICKHOUSE_URL must be that shard's server
    #[arg(long, env = "TELEMETRY_SHARD", value_name = "NUMBER/COUNT", default_value_t)]
    pub shard: Shard,
}

impl Tuning {
    /// Returns the shard's consumer group, because each shard has its own offsets.
    pub(crate) fn group_of_shard(&self) -> String {
        if self.shard.is_only() {
            self.group.clone()
        } else {
            format!("{}-{}", self.group, self.shard.to_string().replace('/', "-of-"))
        }
    }

    pub(crate) fn block_age(&self) -> Duration {
        Duration::from_millis(self.block_age_ms)
    }

    pub(crate) fn takeover_after(&self) -> Duration {
        Duration::from_millis(self.takeover_after_ms)
    }
}

pub fn start(cli: Cli) -> Process {
    Box::pin(async move {
        let Cli { command, process, settings } = cli;
        let command = command.unwrap_or(Command::Run);
        // All commands except these two need the log and the stores.
        let settings = match &command {
            Command::Deliver(own) => return process::serve(&process, |stop| deliver::run(&process, own, stop)).await,
            Command::Health => return health::run_health_command(process.listen).await,
            _ => settings.or_exit(),
        };
        let settings = || settings.harden(process.profile);
        match command {
            Command::Prepare(options) => process::run_once(async { options.prepare(&settings()?).await }).await,
            Command::Replay(options) => run_command(&process, async { replay(&settings()?, &options).await }).await,
            Command::Rebuild(options) => run_command(&process, async { rebuild(&settings()?, &options).await }).await,
            Command::Processed(output) => {
                run_command(&process, async { processed::processed(&settings()?, output.format()).await }).await
            }
            Command::Rejected(what) => run_command(&process, async { what.run(&settings()?).await }).await,
            _ => process::serve(&process, |stop| async { run(&process, &settings()?, stop).await }).await,
        }
    })
}

/// Runs a command that ends by itself. Starts logging, because the command may have to wait for a store.
async fn run_command(settings: &ProcessSettings, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    service_kit::command_output::run(async {
        observability::start_logs(settings)?;
        work.await
    })
    .await
}

/// Creates missing topics, databases and tables. Idempotent, and safe to run in several processes concurrently.
pub async fn prepare(settings: &Settings) -> anyhow::Result<()> {
    kafka::create_topics(&settings.kafka).await?;
    databases::apply_clickhouse_ddl(&settings.clickhouse).await?;
    settings.keep.apply(&settings.kafka).await
}

/// Runs the worker until `stop`: first as a standby, then as the active writer. PostgreSQL may be unavailable: only data that the gateway
/// could not look up or write waits for it.
///
/// # Errors
///
/// Fails if topics or tables have the wrong configuration, or if ClickHouse doesn't behave as the writer requires.
pub async fn run_worker(settings: &Settings, stop: CancellationToken) -> anyhow::Result<()> {
    kafka::check_topics(&settings.kafka).await?;
    databases::check_clickhouse(&settings.clickhouse).await?;
    metric_definitions::register_metrics(METRICS);
    writer::run_writer(settings, stop).await
}

/// Like [`work`], and also serves `/health`, `/ready` and their OpenAPI document.
pub async fn run(process: &ProcessSettings, settings: &Settings, stop: CancellationToken) -> anyhow::Result<()> {
    let mut account = PrivilegeCheck::Passed;
    if process.profile.is_production() {
        account = roles::reject_excess_privileges_if_available(&settings.postgres, Role::Worker).await?;
        roles::reject_excess_clickhouse_privileges(&settings.clickhouse, Role::Worker).await?;
    }
    let serving = serve_probes(process, probes(settings)?, stop.clone()).await?;
    tracing::info!(topic = settings.kafka.topic, "worker started");
    tokio::select! {
        worked = run_worker(settings, stop) => worked?,
        refused = refuse_later(account, &settings.postgres) => return Err(refused),
    }
    serving.await.map_err(anyhow::Error::from)
}

/// Serves `/health`, `/ready` and their OpenAPI document until `stop`.
async fn serve_probes(process: &ProcessSettings, probes: Vec<Probe>, stop: CancellationToken) -> anyhow::Result<JoinHandle<()>> {
    let listener = server::listen(process.listen, "TELEMETRY_LISTEN").await?;
    let (transport, watch) = (process.profile.transport(), health::watch(probes.clone()));
    let own = health::routes(probes).merge(openapi::routes(&[]));
    let (router, limits) =
        (http::with_request_middleware_over(transport, own), server::ServerLimits::default().with_transport(transport));
    Ok(tokio::spawn(async move {
        server::serve(listener, router, limits, stop).await;
        drop(watch);
    }))
}

/// Returns an error if PostgreSQL, which was unavailable at startup, becomes available and the account has too many privileges.
async fn refuse_later(account: PrivilegeCheck, settings: &PostgresSettings) -> anyhow::Error {
    if account == PrivilegeCheck::Unavailable
        && let Err(refused) = roles::reject_excess_privileges_when_available(settings, Role::Worker).await
    {
        return refused;
    }
    std::future::pending().await
}

pub fn probes(settings: &Settings) -> anyhow::Result<Vec<Probe>> {
    let producer = kafka::producer(&settings.kafka)?;
    Ok(vec![
        Probe::clickhouse(databases::clickhouse(&settings.clickhouse)?),
        Probe::kafka(producer, settings.kafka.topic.clone()),
        Probe::database(databases::postgres(&settings.postgres)?),
    ])
}
