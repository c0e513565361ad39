//! The query API: reads for content owners, their partners and agents, and the public lookup of a domain's owner.
//!
//! ```text
//!  GET /content-owners/*, /agent/*                        GET /resolve
//!      │  caller           access ── directory ──► 401, 403       │  public
//!      ▼                                                         ▼
//!   read_limiter ─────────────► a permit         429, 503     routes::resolve ── directory ──► longest verified suffix
//!      ▼
//!   parameters (pure) ────────► period, page, filters    400
//!      ▼
//!   access ── directory ──────► the visible data     403
//!      ▼
//!   reads ────────────────────► one statement        503 if ClickHouse is unavailable
//!      ▼
//!   respond ──────────────────► a fixed order, as JSON, CSV or NDJSON
//! ```
//!
//! Two reads are by session, not by host: `GET /ctx/{token}` (`routes::click_lookup`; `access::consent` reads the
//! consents, `click_manifest` selects the members) and `GET /sessions/{id}/document` (`routes::session_documents`).
//!
//! The only data that it writes is when keys were last used, and for which organizations sessions read (`access::reader`). Telemetry
//! queries require a `Visibility` or a `SessionScope` (invariant 5).

mod routes;
mod parameters;
mod access;
mod read_limiter;
mod reads;
mod event_data;
mod statements;
mod click_manifest;
mod respond;
pub mod analysts;

pub use read_limiter::ReadSettings;
pub use read_limiter::metrics::METRICS;
pub use routes::click_lookup::ClickSettings;
pub use routes::dry_run::{dry_run_close, dry_run_manifest, parse_period};
pub use routes::resolve::ResolveSettings;
pub use routes::routes;
pub use statements::StatementSettings;

use crate::access::organization_names::OrganizationNames;
use crate::access::reader::KEY_USES;
use crate::access::reader::session_reads::SessionReads;
use crate::read_limiter::{ReadLimiter, ReadPermit};
use crate::reads::Reads;
use crate::reads::session_outcomes::OutcomeReader;
use crate::routes::resolve::ResolveLimit;
use crate::statements::Statements;
use axum::Router;
use clap::{Args, Parser, Subcommand};
use schemas::bots::BotTable;
use schemas::ids::ApiKeyId;
use schemas::openapi::Surface;
use service_kit::auth::Tenant;
use service_kit::client_address::ClientSettings;
use service_kit::clock::Clock;
use service_kit::health::{self, Probe};
use service_kit::http::{BodyLimits, BodyReader, Transport};
use service_kit::identity_tables::{HasIdentityTables, IdentityTables};
use service_kit::key_uses::KeyUses;
use service_kit::metric_definitions;
use service_kit::process::Process;
use service_kit::rate_limits::CallerRateLimits;
use service_kit::roles::{self, Role};
use service_kit::settings::{BotSettings, ClickHouseSettings, PostgresSettings, ProcessSettings};
use service_kit::slots::{Pool, Slots};
use service_kit::{databases, http, openapi, process, server};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use url::Url;

const MAX_BODY_BYTES: usize = 16 * 1024;

/// Return figures and events over HTTP
#[derive(Parser, Clone, Debug)]
#[command(name = "query-api", version)]
pub struct Cli {
    /// Command; runs the service by default
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Listener and log
    #[command(flatten)]
    pub process: ProcessSettings,
    /// Settings of the service
    #[command(flatten)]
    pub settings: Settings,
}

/// Subcommands of the binary.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Check whether the running process on this machine is healthy
    Health,
    /// Synchronize analyst accounts in ClickHouse with their permissions
    Analysts(analysts::AnalystSettings),
}

/// Settings of the reads.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// ClickHouse
    #[command(flatten)]
    pub clickhouse: ClickHouseSettings,
    /// PostgreSQL
    #[command(flatten)]
    pub postgres: PostgresSettings,
    /// Rate of domain lookups
    #[command(flatten)]
    pub resolving: ResolveSettings,
    /// Client addresses and rates for unauthenticated clients
    #[command(flatten)]
    pub clients: ClientSettings,
    /// Click token lookups
    #[command(flatten)]
    pub clicks: ClickSettings,
    /// Limits of concurrent reads
    #[command(flatten)]
    pub reads: ReadSettings,
    /// Bot table
    #[command(flatten)]
    pub bots: BotSettings,
    /// Keys of statements
    #[command(flatten)]
    pub statements: StatementSettings,
    /// Public URL of this service, which statements name
    #[arg(long, env = "TELEMETRY_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<Url>,
}

impl Settings {
    /// Rejects settings that are only for development.
    fn harden(&self) -> anyhow::Result<()> {
        self.clients.harden()?;
        self.clickhouse.harden()?;
        self.postgres.harden()
    }

    /// Uses these stores, and defaults for everything else.
    pub fn with_stores(clickhouse: ClickHouseSettings, postgres: PostgresSettings) -> Self {
        let (resolving, clients, clicks) = (ResolveSettings::default(), ClientSettings::default(), ClickSettings::default());
        Self {
            clickhouse,
            postgres,
            resolving,
            clients,
            clicks,
            reads: ReadSettings::default(),
            bots: BotSettings::default(),
            statements: StatementSettings::default(),
            public_url: None,
        }
    }
}

pub struct State {
    directory: IdentityTables,
    names: OrganizationNames,
    uses: KeyUses,
    session_reads: SessionReads,
    telemetry: Reads,
    outcomes: OutcomeReader,
    /// Reads that compare fetches with robots.txt.
    robots: Arc<Slots<Tenant>>,
    resolving: ResolveLimit,
    pool: PgPool,
    lookups: CallerRateLimits,
    read_limiter: Arc<ReadLimiter>,
    bots: Arc<BotTable>,
    statements: Statements,
    /// The service's own origins.
    origins: Vec<String>,
    bodies: BodyReader,
    clock: Clock,
    probes: Vec<Probe>,
}

impl HasIdentityTables for State {
    fn identity_tables(&self) -> &IdentityTables {
        &self.directory
    }

    fn record_use(&self, key: ApiKeyId) {
        self.uses.record(key);
    }
}

impl State {
    /// Connects to the stores. Fails if a table is unknown to this build or has settings that would make figures inexact.
    pub async fn connect(settings: &Settings) -> anyhow::Result<Arc<Self>> {
        Self::connect_at(settings, Clock::System).await
    }

    /// Like [`Self::connect`], with the given clock.
    pub async fn connect_at(settings: &Settings, clock: Clock) -> anyhow::Result<Arc<Self>> {
        let pool = databases::postgres(&settings.postgres)?;
        let directory = IdentityTables::with_limits(&settings.clients, pool.clone());
        databases::check_postgres(&pool).await?;
        databases::check_clickhouse(&settings.clickhouse).await?;
        metric_definitions::register_metrics(METRICS);
        let state = Arc::new(Self {
            probes: vec![Probe::database(pool.clone()), Probe::clickhouse(databases::clickhouse(&settings.clickhouse)?)],
            uses: KeyUses::start(pool.clone(), KEY_USES),
            session_reads: SessionReads::new(pool.clone()),
            names: OrganizationNames::new(directory.clone()),
            directory,
            telemetry: Reads::new(&databases::clickhouse(&settings.clickhouse)?, &settings.reads),
            outcomes: OutcomeReader::new(pool.clone(), settings.reads.time_to_start()),
            robots: Slots::new(Pool::Robots, routes::robots::AT_ONCE),
            resolving: ResolveLimit::new(&settings.resolving, &settings.clients),
            lookups: CallerRateLimits::new(settings.clicks.click_lookup_rate),
            read_limiter: ReadLimiter::new(&settings.reads),
            bots: settings.bots.table()?,
            statements: Statements::new(&settings.statements, settings.public_url.as_ref())?,
            origins: settings.public_url.iter().map(|url| url.origin().ascii_serialization()).collect(),
            bodies: BodyReader::new(BodyLimits::with_bytes(MAX_BODY_BYTES)),
            pool,
            clock,
        });
        routes::reconciliation::alerts::start(Arc::downgrade(&state));
        Ok(state)
    }

    /// Checks the reconciliation alerts of all owners, as the process does periodically. Returns the number of new exceptions.
    pub async fn check_alerts(&self) -> Result<u64, sqlx::Error> {
        routes::reconciliation::alerts::round(self, self.clock.now()).await
    }

    /// Returns the reads for a request, with its priority.
    fn reads(&self, permit: &ReadPermit) -> Reads {
        self.telemetry.with_priority(permit.priority())
    }

    /// Returns the checks of `/ready`.
    pub fn probes(&self) -> Vec<Probe> {
        self.probes.clone()
    }
}

/// Returns a single process's routes over plain HTTP.
pub fn router(state: Arc<State>) -> Router {
    router_over(Transport::Plain, state)
}

fn router_over(transport: Transport, state: Arc<State>) -> Router {
    let probes = state.probes();
    let own = routes(state).merge(health::routes(probes)).merge(openapi::routes(&[Surface::Query]));
    http::with_request_middleware_over(transport, own)
}

/// Runs the command of `cli` until it ends.
pub fn start(cli: Cli) -> Process {
    Box::pin(async move {
        if let Some(Command::Health) = cli.command {
            return health::run_health_command(cli.process.listen).await;
        }
        let process = cli.process.clone();
        if let Some(Command::Analysts(settings)) = cli.command {
            return process::serve(&process, |stop| run_analyst_sync(&process, &cli.settings, &settings, stop)).await;
        }
        process::serve(&process, |stop| run(cli, stop)).await
    })
}

/// Runs the analyst synchronization until `stop`, with `/health` and `/ready`.
async fn run_analyst_sync(
    process: &ProcessSettings,
    settings: &Settings,
    own: &analysts::AnalystSettings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    if process.profile.is_production() {
        settings.clickhouse.harden()?;
        settings.postgres.harden()?;
        roles::reject_excess_privileges(&settings.postgres, Role::Query).await?;
    }
    let upkeep = analysts::AnalystSync::connect(&settings.clickhouse, &settings.postgres, own).await?;
    let probes = upkeep.probes();
    let listener = server::listen(process.listen, "TELEMETRY_LISTEN").await?;
    let _watch = health::watch(probes.clone());
    let router = http::with_request_middleware_over(process.profile.transport(), health::routes(probes));
    let serving = server::serve(listener, router, server::ServerLimits::for_clients(&settings.clients), stop.clone());
    tokio::join!(serving, upkeep.run(Duration::from_secs(own.every_seconds), stop));
    Ok(())
}

/// Serves until `stop`.
pub async fn run(cli: Cli, stop: CancellationToken) -> anyhow::Result<()> {
    if cli.process.profile.is_production() {
        cli.settings.harden()?;
        roles::reject_excess_privileges(&cli.settings.postgres, Role::Query).await?;
        roles::reject_excess_clickhouse_privileges(&cli.settings.clickhouse, Role::Query).await?;
    }
    let state = State::connect(&cli.settings).await?;
    let listener = server::listen(cli.process.listen, "TELEMETRY_LISTEN").await?;
    let _watch = health::watch(state.probes());
    tracing::info!(listen = %cli.process.listen, "query-api is listening");
    let transport = cli.process.profile.transport();
    let limits = server::ServerLimits::for_clients(&cli.settings.clients).with_transport(transport);
    server::serve(listener, router_over(transport, state), limits, stop).await;
    Ok(())
}
