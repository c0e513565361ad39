//! The ingest gateway accepts reports over HTTP and returns a 2xx only when the log has them.
//!
//! ```text
//!  POST /events, /sessions/start, /sessions/end, /sessions/bulk, /click-tokens
//!      │  who?           service_kit::auth::Reporter          401, 403
//!      │  bytes          service_kit::http::BodyReader        408, 413, 415
//!      ▼
//!   request::raw ─────► members as written                    400
//!      ▼
//!   validate (pure) ──► every fault at once                   422
//!      ▼
//!   record::normalise ► site, canonical URL, key, stripped    403 for hosts that are not the caller's
//!      ▼
//!   log ──────────────► one record, acknowledged by all, or   503 when neither is possible
//!                      fsynced in the spill
//!      ▼
//!   201
//! ```
//!
//! `POST /drains/{provider}` accepts log lines from CDNs; each kept line takes the same path (`drains`).

mod routes;
mod request;
mod validate;
mod privacy;
mod record;
mod log;
mod sessions;
mod tokens;
mod drains;
mod metrics;

pub use drains::{DrainDryRun, DrainSettings, DryLine, FORMATS, FormatId, LogFormat, Outcome as LineOutcome};
pub use log::{Durability, Log, Message};
pub use metrics::MEASURES;
pub use request::limits::Limits;
pub use request::raw::visited_bytes;
pub use routes::dry_run::{Document, dry_run};
pub use routes::routes;
pub use sessions::expiry::{SessionExpiry, TokenExpiry};

use clap::{Args, Parser, Subcommand};
use drains::Drains;
use record::accept::Remembered;
use request::body_memory::BodyMemory;
use request::callers::refusals::{self, Refusals};
use request::callers::{self, KnownCallers};
use request::idempotency::IdempotencyKeys;
use request::large::LargeBodies;
use request::self_serve::SelfServe;
use schemas::bots::BotTable;
use schemas::ids::ApiKeyId;
use schemas::openapi::Surface;
use schemas::secrets::SecretHash;
use service_kit::auth::{Caller, Tenant};
use service_kit::client_address::ClientSettings;
use service_kit::clock::Clock;
use service_kit::database::Database;
use service_kit::directory::{Directory, HasDirectory};
use service_kit::health::{self, Probe};
use service_kit::http::{ApiError, BodyReader};
use service_kit::key_uses::KeyUses;
use service_kit::measures;
use service_kit::process::Process;
use service_kit::rates::CallerRates;
use service_kit::roles::{self, Role};
use service_kit::sealing::SecretsSettings;
use service_kit::settings::{BotSettings, KafkaSettings, PostgresSettings, ProcessSettings};
use service_kit::slots::Slots;
use service_kit::{http, openapi, process, server, stores};
use sessions::SessionMemory;
use sqlx::PgPool;
use std::sync::Arc;
use tokens::ClickTokens;
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
}

impl Settings {
    /// Rejects settings that are only good for development.
    fn harden(&mut self) -> anyhow::Result<()> {
        self.clients.harden()?;
        self.kafka.harden()?;
        self.postgres.harden()
    }

    /// Default settings with the given stores.
    pub fn on(kafka: KafkaSettings, postgres: PostgresSettings) -> Self {
        let (limits, durability, expiry) = (Limits::default(), Durability::default(), TokenExpiry::default());
        let (clients, drains, bots) = (ClientSettings::default(), DrainSettings::default(), BotSettings::default());
        let (secrets, session_expiry) = (SecretsSettings::default(), SessionExpiry::default());
        Self { kafka, postgres, clients, limits, durability, drains, bots, secrets, expiry, session_expiry }
    }
}

pub struct State {
    pool: PgPool,
    callers: KnownCallers,
    bodies: BodyReader,
    body_memory: BodyMemory,
    rates: CallerRates,
    self_serve: SelfServe,
    uses: KeyUses,
    refusals: Refusals,
    _refusals_expiry: AbortOnDropHandle<()>,
    tokens: ClickTokens,
    _expiry: AbortOnDropHandle<()>,
    _session_expiry: Option<AbortOnDropHandle<()>>,
    memory: SessionMemory,
    session_changes: Arc<Slots<Tenant>>,
    remembered: Remembered,
    idempotency: IdempotencyKeys,
    log: Log,
    large: Arc<LargeBodies>,
    limits: Limits,
    bots: Arc<BotTable>,
    drains: Drains,
    clock: Clock,
    probes: Vec<Probe>,
}

impl HasDirectory for State {
    fn directory(&self) -> &Directory {
        self.callers.directory()
    }

    async fn find_caller(&self, hash: &SecretHash) -> Result<Option<Caller>, ApiError> {
        self.callers.find(hash).await
    }

    fn note_use(&self, key: ApiKeyId) {
        self.uses.note(key);
    }
}

impl State {
    /// Connects to the stores. Fails if the topic or the tables would break the promise of a 2xx.
    pub async fn connect(settings: &Settings, clock: Clock) -> anyhow::Result<Arc<Self>> {
        let pool = stores::postgres(&settings.postgres)?;
        stores::check_postgres(&pool).await?;
        measures::announce(MEASURES);
        let reads = Database::new(pool.clone(), clock.clone());
        let drains = Drains::start(&settings.drains, &settings.secrets, pool.clone(), clock.clone())?;
        let log = Log::connect(&settings.kafka, &settings.durability).await?;
        Ok(Arc::new(Self {
            probes: vec![Probe::database(pool.clone()), log.probe()],
            callers: KnownCallers::new(Directory::asked_by(&settings.clients, pool.clone()), &clock),
            bodies: BodyReader::new(settings.limits.body()),
            body_memory: BodyMemory::new(settings.limits.body_memory_bytes),
            rates: CallerRates::new(settings.limits.key_rate),
            self_serve: SelfServe::new(&settings.limits),
            uses: KeyUses::start(pool.clone(), callers::NOTE_KEY_USES),
            refusals: Refusals::start(pool.clone()),
            _refusals_expiry: refusals::start_expiry(pool.clone(), clock.clone()),
            memory: SessionMemory::new(reads.clone()),
            tokens: ClickTokens::new(reads),
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
            remembered: Remembered::new(),
            idempotency: IdempotencyKeys::new(),
            drains,
            pool,
            log,
            large: LargeBodies::new(),
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
            return health::report_own(cli.process.listen).await;
        }
        let process = cli.process.clone();
        process::serve(&process, |stop| run(cli, Clock::System, stop)).await
    })
}

/// Serves until `stop`, then finishes open requests and flushes the producer.
pub async fn run(mut cli: Cli, clock: Clock, stop: CancellationToken) -> anyhow::Result<()> {
    if cli.process.profile.is_production() {
        cli.settings.harden()?;
        roles::refuse_privileged(&cli.settings.postgres, Role::Gateway).await?;
    }
    let state = State::connect(&cli.settings, clock).await?;
    let listener = server::listen(cli.process.listen, "TELEMETRY_LISTEN").await?;
    let own = routes(Arc::clone(&state)).merge(health::routes(state.probes())).merge(openapi::routes(&[Surface::Ingest]));
    let transport = cli.process.profile.transport();
    let (router, limits) = (http::with_boundary_over(transport, own), server::Limits::of(&cli.settings.clients).over(transport));
    let _watch = health::watch(state.probes());
    tracing::info!(listen = %cli.process.listen, "ingest-gateway is listening");
    server::serve(listener, router, limits, stop).await;
    state.flush().await;
    Ok(())
}
