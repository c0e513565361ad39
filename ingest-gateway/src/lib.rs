//! The ingest gateway accepts reports over HTTP and returns a 2xx only once they are on the log.
//!
//! ```text
//!  POST /events, /sessions/start, /sessions/end, /sessions/bulk, /click-tokens
//!      │  caller         service_kit::auth::Reporter          401, 403
//!      │  bytes          service_kit::http::BodyReader        408, 413, 415
//!      ▼
//!   request::raw_json ► members as sent                       400
//!      ▼
//!   validate (pure) ──► all errors at once                    422
//!      ▼
//!   record ───────────► site, canonical URL, key, stripped    403 for hosts that aren't the caller's
//!      ▼
//!   log ──────────────► one record, acknowledged by all       503 if neither is possible
//!                       replicas or fsynced in the spill
//!      ▼
//!   201
//! ```
//!
//! `POST /drains/{provider}` accepts log lines from CDNs; stored lines take the same path (`drains`).

mod routes;
mod request;
mod validate;
mod privacy;
mod record;
mod log;
mod sessions;
mod click_tokens;
mod drains;
mod metrics;

pub use drains::{DrainDryRun, DrainSettings, DryLine, FORMATS, FormatId, LineOutcome, LogFormat};
pub use log::{Durability, Log, Message};
pub use metrics::METRICS;
pub use request::limits::Limits;
pub use request::raw_json::visited_bytes;
pub use routes::dry_run::{Document, dry_run};
pub use routes::routes;
pub use sessions::expiry::{SessionExpiry, TokenExpiry};

use clap::{Args, Parser, Subcommand};
use click_tokens::ClickTokens;
use drains::Drains;
use record::accept::AcceptedRequests;
use request::body_memory::BodyMemory;
use request::caller_cache::refused_reports::{self, RefusedReports};
use request::caller_cache::{self, CallerCache};
use request::cpu_permits::CpuPermits;
use request::idempotency::IdempotencyKeys;
use request::report_signature::SignatureChecks;
use request::write_budgets::WriteBudgets;
use schemas::bots::BotTable;
use schemas::ids::ApiKeyId;
use schemas::openapi::Surface;
use schemas::secrets::SecretHash;
use service_kit::auth::{Caller, Tenant};
use service_kit::client_address::ClientSettings;
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::health::{self, Probe};
use service_kit::http::{ApiError, BodyReader};
use service_kit::identity_tables::{HasIdentityTables, IdentityTables};
use service_kit::key_uses::KeyUses;
use service_kit::metric_definitions;
use service_kit::optional_postgres::OptionalPostgres;
use service_kit::process::Process;
use service_kit::rate_limits::CallerRateLimits;
use service_kit::roles::{self, Role};
use service_kit::secret_encryption::SecretsSettings;
use service_kit::settings::{BotSettings, KafkaSettings, PostgresSettings, ProcessSettings, WebhookSettings};
use service_kit::slots::Slots;
use service_kit::{databases, http, openapi, process, server};
use sessions::SessionLevelCache;
use sqlx::PgPool;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Accept events, sessions and logs over HTTP
#[derive(Parser, Clone, Debug)]
#[command(name = "ingest-gateway", version)]
pub struct Cli {
    /// Command; runs the service by default
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub process: ProcessSettings,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Check whether the running process on this machine is healthy
    Health,
}

#[derive(Args, Clone, Debug)]
pub struct Settings {
    #[command(flatten)]
    pub kafka: KafkaSettings,
    #[command(flatten)]
    pub postgres: PostgresSettings,
    #[command(flatten)]
    pub clients: ClientSettings,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub durability: Durability,
    #[command(flatten)]
    pub drains: DrainSettings,
    #[command(flatten)]
    pub bots: BotSettings,
    #[command(flatten)]
    pub secrets: SecretsSettings,
    #[command(flatten)]
    pub expiry: TokenExpiry,
    #[command(flatten)]
    pub session_expiry: SessionExpiry,
    #[command(flatten)]
    pub webhooks: WebhookSettings,
}

impl Settings {
    /// Rejects settings that are only suitable for development.
    fn harden(&mut self) -> anyhow::Result<()> {
        self.clients.harden()?;
        self.kafka.harden()?;
        self.webhooks.harden()?;
        self.postgres.harden()
    }

    /// Default settings with the given stores.
    pub fn on(kafka: KafkaSettings, postgres: PostgresSettings) -> Self {
        let (limits, durability, expiry) = (Limits::default(), Durability::default(), TokenExpiry::default());
        let (clients, drains, bots) = (ClientSettings::default(), DrainSettings::default(), BotSettings::default());
        let (secrets, session_expiry, webhooks) =
            (SecretsSettings::default(), SessionExpiry::default(), WebhookSettings::default());
        Self { kafka, postgres, clients, limits, durability, drains, bots, secrets, expiry, session_expiry, webhooks }
    }
}

pub struct State {
    pool: PgPool,
    callers: CallerCache,
    bodies: BodyReader,
    body_memory: BodyMemory,
    rates: CallerRateLimits,
    write_budgets: WriteBudgets,
    uses: KeyUses,
    refused_reports: RefusedReports,
    _refusals_expiry: AbortOnDropHandle<()>,
    click_tokens: ClickTokens,
    _expiry: AbortOnDropHandle<()>,
    _session_expiry: Option<AbortOnDropHandle<()>>,
    session_levels: SessionLevelCache,
    session_changes: Arc<Slots<Tenant>>,
    remembered: AcceptedRequests,
    idempotency: IdempotencyKeys,
    log: Log,
    cpu_permits: Arc<CpuPermits>,
    signatures: SignatureChecks,
    limits: Limits,
    bots: Arc<BotTable>,
    drains: Drains,
    clock: Clock,
    probes: Vec<Probe>,
}

impl HasIdentityTables for State {
    fn identity_tables(&self) -> &IdentityTables {
        self.callers.directory()
    }

    async fn find_caller(&self, hash: &SecretHash) -> Result<Option<Caller>, ApiError> {
        self.callers.find(hash).await
    }

    fn record_use(&self, key: ApiKeyId) {
        self.uses.record(key);
    }
}

impl State {
    /// Connects to the stores. Fails if the topic or the tables would break the promise of a 2xx.
    pub async fn connect(settings: &Settings, clock: Clock) -> anyhow::Result<Arc<Self>> {
        let pool = databases::postgres(&settings.postgres)?;
        databases::check_postgres(&pool).await?;
        metric_definitions::register_metrics(METRICS);
        let reads = OptionalPostgres::new(pool.clone(), clock.clone());
        let egress = Egress::new(&settings.webhooks)?;
        let drains = Drains::start(&settings.drains, &settings.secrets, egress, pool.clone(), clock.clone())?;
        let signatures = SignatureChecks::start(&pool, &clock);
        let log = Log::connect(&settings.kafka, &settings.durability).await?;
        Ok(Arc::new(Self {
            probes: vec![Probe::database(pool.clone()), log.probe()],
            callers: CallerCache::new(IdentityTables::with_limits(&settings.clients, pool.clone()), &clock),
            bodies: BodyReader::new(settings.limits.body()),
            body_memory: BodyMemory::new(settings.limits.body_memory_bytes),
            rates: CallerRateLimits::new(settings.limits.key_rate),
            write_budgets: WriteBudgets::new(&settings.limits),
            uses: KeyUses::start(pool.clone(), caller_cache::NOTE_KEY_USES),
            refused_reports: RefusedReports::start(pool.clone()),
            _refusals_expiry: refused_reports::start_expiry(pool.clone(), clock.clone()),
            session_levels: SessionLevelCache::new(reads.clone()),
            click_tokens: ClickTokens::new(reads),
            _expiry: sessions::expiry::expire_tokens(
                pool.clone(),
                clock.clone(),
                settings.kafka.clone(),
                settings.expiry.clone(),
            ),
            _session_expiry: sessions::expiry::expire_sessions(
                pool.clone(),
                clock.clone(),
                settings.kafka.clone(),
                settings.session_expiry.clone(),
            ),
            session_changes: sessions::change::slots(),
            remembered: AcceptedRequests::new(),
            idempotency: IdempotencyKeys::new(),
            drains,
            pool,
            log,
            cpu_permits: CpuPermits::new(),
            signatures,
            limits: settings.limits.clone(),
            bots: settings.bots.table()?,
            clock,
        }))
    }

    pub fn probes(&self) -> Vec<Probe> {
        self.probes.clone()
    }

    /// Waits for unacknowledged records, as the last step of a shutdown.
    pub async fn flush(&self) {
        self.log.flush().await;
    }
}

pub fn start(cli: Cli) -> Process {
    Box::pin(async move {
        if let Some(Command::Health) = cli.command {
            return health::run_health_command(cli.process.listen).await;
        }
        let process = cli.process.clone();
        process::serve(&process, |stop| run(cli, Clock::System, stop)).await
    })
}

/// Serves until `stop`, then finishes open requests and flushes the producer.
pub async fn run(mut cli: Cli, clock: Clock, stop: CancellationToken) -> anyhow::Result<()> {
    if cli.process.profile.is_production() {
        cli.settings.harden()?;
        roles::reject_excess_privileges(&cli.settings.postgres, Role::Gateway).await?;
    }
    let state = State::connect(&cli.settings, clock).await?;
    let listener = server::listen(cli.process.listen, "TELEMETRY_LISTEN").await?;
    let own = routes(Arc::clone(&state)).merge(health::routes(state.probes())).merge(openapi::routes(&[Surface::Ingest]));
    let transport = cli.process.profile.transport();
    let (router, limits) = (
        http::with_request_middleware_over(transport, own),
        server::ServerLimits::for_clients(&cli.settings.clients).with_transport(transport),
    );
    let _watch = health::watch(state.probes());
    tracing::info!(listen = %cli.process.listen, "ingest-gateway is listening");
    server::serve(listener, router, limits, stop).await;
    state.flush().await;
    Ok(())
}
