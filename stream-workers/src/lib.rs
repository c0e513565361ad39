//! 4 CONSUME → 5 DEDUPE → 6 STORE: turns the log into keyed rows, once each, whatever dies on the way.
//!
//! 1. Poll records into a block: until it is 500 ms old, 99,000 rows or 32 MiB large (`consume`).
//! 2. Decode each as it arrives; what cannot be decoded becomes a dead letter (`record::decode`, `dead_letters`).
//! 3. Write the sessions that PostgreSQL did not take from the gateway, and resolve the click tokens that the gateway could not look
//!    up; while PostgreSQL is away, wait. A record with a token that is not good becomes a dead letter; a block without any asks
//!    nothing (`worker::session_writer`, `resolve`).
//! 4. Fold: equal observations collapse, the first stays (`record::fold`).
//! 5. Acknowledge the dead letters of the block, then insert its rows as one block; retry for ever (`store`).
//! 6. Commit the offsets (`worker`).
//!
//! Beside that, each worker keeps the index of the reads small (`worker::compaction`).
//!
//! Everything before 5 may be dropped at any time: nothing of it was visible yet and nothing was committed, so
//! the next owner of the partition reads it again. A crash between 5 and 6 repeats 5, which changes no figure:
//! the rows have the same keys, and every read counts keys. That is the whole proof (invariants 3 and 10).
//!
//! Must never skip a record, and must never commit before the insert is acknowledged.

mod worker;
mod writer;
mod consume;
mod record;
mod resolve;
mod dead_letters;
mod store;
mod replay;
pub mod deliver;
mod metrics;

pub use consume::partition_stats;
pub use dead_letters::RejectedCommand;
pub use metrics::MEASURES;
pub use record::dry_run::dry_run;
pub use replay::rebuild::{RebuildOptions, rebuild};
pub use replay::{ReplayOptions, replay};
pub use store::bulk_loader::BulkLoader;
pub use store::keep::Keep;
pub use worker::log_status::{settled as print_settled, standing};
pub use writer::{EventLoader, write};

use clap::{Args, Parser, Subcommand};
use service_kit::clock::Clock;
use service_kit::command::OutputOptions;
use service_kit::health::{self, Probe};
use service_kit::measures;
use service_kit::process::Process;
use service_kit::roles::{self, Judged, Role};
use service_kit::settings::{ClickHouseSettings, KafkaSettings, Needed, PostgresSettings, ProcessSettings, Profile};
use service_kit::{http, kafka, openapi, process, server, stores, telemetry};
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Reads the log, removes repeats and writes ClickHouse
#[derive(Parser, Clone, Debug)]
#[command(name = "stream-workers", version, subcommand_negates_reqs = true)]
pub struct Cli {
    /// What to do; works off the log when absent
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Where it listens and logs
    #[command(flatten)]
    pub process: ProcessSettings,
    /// Everything else; delivering and asking for health do without
    #[command(flatten)]
    pub settings: Needed<Settings>,
}

/// What `telemetry stream-workers` can do; `start` has one line for each.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Work off the log until asked to stop; also what is done without a command
    Run,
    /// Deliver webhooks from the outbox of PostgreSQL; asks neither the log nor ClickHouse
    Deliver(deliver::DeliverSettings),
    /// Ask the running process on this machine whether it is up
    Health,
    /// Create the topics and tables that are missing, and leave
    Prepare,
    /// Read a part of the log again into the store; safe while workers run, and as often as wanted
    Replay(ReplayOptions),
    /// Fill an empty store from the log
    Rebuild(RebuildOptions),
    /// What has become of the log's records, as the commits of the group say
    Settled(OutputOptions),
    /// Merge the log into one row per event; the reads don't use it yet
    #[command(hide = true)]
    Write,
    /// Records that could not be read: what they are, and putting them back
    #[command(subcommand)]
    Rejected(RejectedCommand),
}

/// What a worker needs besides a listener.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The log
    #[command(flatten)]
    pub kafka: KafkaSettings,
    /// The store
    #[command(flatten)]
    pub clickhouse: ClickHouseSettings,
    /// Click tokens
    #[command(flatten)]
    pub postgres: PostgresSettings,
    /// How it works
    #[command(flatten)]
    pub tuning: Tuning,
    /// How long things are kept
    #[command(flatten)]
    pub keep: Keep,
}

impl Settings {
    /// Refuses what is good for development only, where that is asked for.
    pub fn under(mut self, profile: Profile) -> anyhow::Result<Self> {
        if profile.is_production() {
            self.kafka.harden()?;
            self.clickhouse.harden()?;
            self.postgres.harden()?;
        }
        Ok(self)
    }
}

/// How a worker works, apart from what it works on.
#[derive(Args, Clone, Debug)]
pub struct Tuning {
    /// Consumer group; every worker of one deployment shares it
    #[arg(long = "group", env = "TELEMETRY_GROUP", default_value = "stream-workers")]
    pub group: String,
    /// Oldest a block of rows may get before it is inserted, in milliseconds
    #[arg(long, env = "TELEMETRY_BLOCK_AGE_MS", default_value_t = 500)]
    pub block_age_ms: u64,
    /// Silence of the active writer after which a standby takes over, in milliseconds
    #[arg(long, env = "TELEMETRY_TAKEOVER_AFTER_MS", default_value_t = 8_000)]
    pub takeover_after_ms: u64,
}

impl Tuning {
    pub(crate) fn block_age(&self) -> Duration {
        Duration::from_millis(self.block_age_ms)
    }

    pub(crate) fn takeover_after(&self) -> Duration {
        Duration::from_millis(self.takeover_after_ms)
    }
}

/// The process that `cli` asks for, until its end.
pub fn start(cli: Cli) -> Process {
    Box::pin(async move {
        let Cli { command, process, settings } = cli;
        let command = command.unwrap_or(Command::Run);
        // All but these two need the log and the stores.
        let settings = match &command {
            Command::Deliver(own) => return process::serve(&process, |stop| deliver::run(&process, own, stop)).await,
            Command::Health => return health::report_own(process.listen).await,
            _ => settings.or_refuse(),
        };
        let settings = || settings.under(process.profile);
        match command {
            Command::Prepare => process::once(async { prepare(&settings()?).await }).await,
            Command::Replay(options) => {
                run_command(&process, async { replay(&settings()?, &options, Clock::System).await }).await
            }
            Command::Rebuild(options) => {
                run_command(&process, async { rebuild(&settings()?, &options, Clock::System).await }).await
            }
            Command::Write => process::serve(&process, |stop| async { run_writer(&process, &settings()?, stop).await }).await,
            Command::Settled(output) => run_command(&process, async { print_settled(&settings()?, output.form()).await }).await,
            Command::Rejected(what) => run_command(&process, async { what.run(&settings()?).await }).await,
            _ => process::serve(&process, |stop| async { run(&process, &settings()?, stop).await }).await,
        }
    })
}

/// A mode that ends by itself; it may have to say that it waits for a store.
async fn run_command(settings: &ProcessSettings, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    service_kit::command::run(async {
        telemetry::start_logs(settings)?;
        work.await
    })
    .await
}

/// Creates what is missing: topics, database, tables. Safe to repeat, also by several processes at once.
pub async fn prepare(settings: &Settings) -> anyhow::Result<()> {
    kafka::create_topics(&settings.kafka).await?;
    stores::apply_clickhouse_ddl(&settings.clickhouse).await?;
    settings.keep.apply(&settings.kafka, &settings.clickhouse).await
}

/// Works off the log until `stop`; refuses to start on topics or tables that would break exactness. PostgreSQL may be
/// away: only click tokens that the gateway could not look up wait for it.
pub async fn work(settings: &Settings, stop: CancellationToken) -> anyhow::Result<()> {
    kafka::check_topics(&settings.kafka).await?;
    stores::check_clickhouse(&settings.clickhouse).await?;
    store::Store::connect(&settings.clickhouse, Clock::System)?.check_columns().await?;
    measures::announce(MEASURES);
    worker::Worker::connect(settings)?.run(stop).await
}

/// [`work`], with `/health`, `/ready` and their OpenAPI document beside it.
pub async fn run(process: &ProcessSettings, settings: &Settings, stop: CancellationToken) -> anyhow::Result<()> {
    run_beside_probes(process, settings, &stop, work(settings, stop.clone())).await
}

/// [`write`], with `/health`, `/ready` and their OpenAPI document beside it.
pub async fn run_writer(process: &ProcessSettings, settings: &Settings, stop: CancellationToken) -> anyhow::Result<()> {
    run_beside_probes(process, settings, &stop, write(settings, stop.clone())).await
}

async fn run_beside_probes(
    process: &ProcessSettings,
    settings: &Settings,
    stop: &CancellationToken,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut account = Judged::Good;
    if process.profile.is_production() {
        account = roles::refuse_privileged_if_there(&settings.postgres, Role::Worker).await?;
        roles::refuse_privileged_clickhouse(&settings.clickhouse, Role::Worker).await?;
    }
    let listener = server::listen(process.listen, "TELEMETRY_LISTEN").await?;
    let probes = probes(settings)?;
    let _watch = health::watch(probes.clone());
    let own = health::routes(probes).merge(openapi::routes(&[]));
    let transport = process.profile.transport();
    let (router, limits) = (http::with_boundary_over(transport, own), server::Limits::default().over(transport));
    let serving = tokio::spawn(server::serve(listener, router, limits, stop.clone()));
    tracing::info!(topic = settings.kafka.topic, group = settings.tuning.group, "stream-workers works off the log");
    tokio::select! {
        worked = work => worked?,
        refused = refuse_later(account, &settings.postgres) => return Err(refused),
    }
    serving.await.map_err(anyhow::Error::from)
}

/// Ends once PostgreSQL, which was away at the start, has come back and knows the account as one that could do too much.
async fn refuse_later(account: Judged, settings: &PostgresSettings) -> anyhow::Error {
    if account == Judged::NotYet
        && let Err(refused) = roles::refuse_privileged_once_there(settings, Role::Worker).await
    {
        return refused;
    }
    std::future::pending().await
}

/// What `/ready` asks.
pub fn probes(settings: &Settings) -> anyhow::Result<Vec<Probe>> {
    let producer = kafka::producer(&settings.kafka)?;
    Ok(vec![
        Probe::clickhouse_shards(stores::clickhouse_shards(&settings.clickhouse)?),
        Probe::kafka(producer, settings.kafka.topic.clone()),
        Probe::database(stores::postgres(&settings.postgres)?),
    ])
}
