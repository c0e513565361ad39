//! Organizations, keys, domains, delegations and webhook endpoints. The only crate that writes their tables.

mod routes;
pub mod admin;
mod request;
mod access;
mod keys;
pub mod domains;
mod delegations;
pub mod webhooks;
mod people;
pub mod organizations;

pub use keys::api_keys;
pub use people::{mail, sign_in, user_sessions};
pub use request::email_address;
pub use routes::dry_run::{DRY_RUNS, DryRun};
pub use routes::routes;

use crate::access::actor::{ChangeBudgets, Credential};
use crate::domains::manifests::checks::{self, ManifestChecks};
use crate::domains::recheck::DomainRecheck;
use crate::domains::robots::{self, RobotsChecks};
use crate::domains::{DomainSettings, RecheckCounts, Verification};
use crate::organizations::emails::opening;
use crate::organizations::reconciliation_alert;
use crate::request::bodies::Bodies;
use crate::request::request_slot::RequestSlots;
use crate::webhooks::manual_send_limits::ManualSendLimits;
use crate::webhooks::{DeliveryLogSettings, delivery_retention};
use chrono::{DateTime, SubsecRound, Utc};
use clap::{Args, Parser, Subcommand};
use mail::{MailSettings, Mailer};
use schemas::ids::ApiKeyId;
use schemas::openapi::Surface;
use schemas::webhook_url::AllowedReceivers;
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::health::{self, Probe};
use service_kit::http::{ApiError, BodyLimits};
use service_kit::identity_tables::{HasIdentityTables, IdentityTables};
use service_kit::key_uses::KeyUses;
use service_kit::process::Process;
use service_kit::rate_limits::CallerRateLimits;
use service_kit::roles::{self, Role};
use service_kit::secret_encryption::{Sealer, SecretsSettings};
use service_kit::settings::{PostgresSettings, ProcessSettings, Profile, WebhookSettings};
use service_kit::{command_output, databases, http, openapi, process, server};
use sign_in::{SignIn, SignInSettings};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Manage organizations, keys, domains, delegations and webhooks
#[derive(Parser, Clone, Debug)]
#[command(name = "identity-api", version)]
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

/// Subcommands of the binary. Without one, it serves.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Check whether the running process on this machine is healthy
    Health,
    /// Create and update the PostgreSQL tables
    Migrate,
    /// Administer organizations, keys, domains, operators and analyst accounts
    Admin(admin::Admin),
}

#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// PostgreSQL
    #[command(flatten)]
    pub postgres: PostgresSettings,
    /// Encryption of secrets at rest; only the service needs it
    #[command(flatten)]
    pub secrets: SecretsSettings,
    /// Permitted webhook targets
    #[command(flatten)]
    pub webhooks: WebhookSettings,
    /// Email delivery
    #[command(flatten)]
    pub mail: MailSettings,
    /// Sign-in
    #[command(flatten)]
    pub sign_in: SignInSettings,
    /// Domains
    #[command(flatten)]
    pub domains: DomainSettings,
    /// Webhook delivery log
    #[command(flatten)]
    pub delivery_log: DeliveryLogSettings,
}

impl Settings {
    /// Rejects settings that are only for development.
    fn harden(&self) -> anyhow::Result<()> {
        self.postgres.harden()?;
        self.webhooks.harden()?;
        self.mail.harden()?;
        self.sign_in.harden()?;
        self.secrets.sealer().map(drop)
    }

    /// Like `harden`, for commands that only use PostgreSQL.
    pub fn for_commands(self, profile: Profile) -> anyhow::Result<Self> {
        if profile.is_production() {
            self.postgres.harden()?;
        }
        Ok(self)
    }

    /// Like `for_commands`, but in production also rejects database accounts with too many privileges. Only `migrate` uses the tables' owner.
    pub async fn for_admin(self, profile: Profile) -> anyhow::Result<Self> {
        let settings = self.for_commands(profile)?;
        if profile.is_production() {
            roles::reject_excess_privileges(&settings.postgres, Role::Identity).await?;
        }
        Ok(settings)
    }
}

const MAX_BODY_BYTES: usize = 64 * 1024;
const LIMITS: BodyLimits = BodyLimits::with_bytes(MAX_BODY_BYTES);

/// Time for pending emails after the last response. Shorter than the shutdown timeout.
const MAIL_GRACE: Duration = Duration::from_millis(400);

pub struct State {
    pool: PgPool,
    directory: IdentityTables,
    uses: KeyUses,
    clock: Clock,
    bodies: Bodies,
    sealer: Sealer,
    receivers: AllowedReceivers,
    mailer: Mailer,
    sign_in: SignIn,
    rates: CallerRateLimits<Credential>,
    budgets: ChangeBudgets,
    delegations_per_pair: u32,
    request_slots: RequestSlots,
    manual_send_limits: ManualSendLimits,
    verification: Verification,
    recheck: DomainRecheck,
    manifests: ManifestChecks,
    robots: RobotsChecks,
    _housekeeping: [AbortOnDropHandle<()>; 6],
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
    /// Connects to PostgreSQL. Fails if its tables are older than this build, or if the secrets key is invalid.
    pub async fn connect(settings: &Settings, clock: Clock) -> anyhow::Result<Arc<Self>> {
        let sealer = settings.secrets.sealer()?;
        let mailer = settings.mail.mailer()?;
        let egress = Egress::new(&settings.webhooks)?;
        let sign_in = settings.sign_in.checked(egress.clone())?;
        let rates = CallerRateLimits::new(settings.sign_in.identity_rate);
        let budgets = ChangeBudgets::new(settings.sign_in.identity_bytes);
        let pool = databases::postgres_with(&settings.postgres, &settings.delivery_log.session())?;
        databases::check_postgres(&pool).await?;
        let verification = Verification::new(&settings.domains, egress);
        let receivers = settings.webhooks.webhook_allow.clone();
        let uses = KeyUses::start(pool.clone(), api_keys::RECORD_USES);
        let directory = IdentityTables::with_limits(&settings.sign_in.clients, pool.clone());
        let request_slots = RequestSlots::new(directory.clone(), clock.clone());
        let bodies = Bodies::new(LIMITS, request_slots.clone());
        let upkeep = verification.recheck(pool.clone(), mailer.clone());
        let manifests = ManifestChecks { pool: pool.clone(), finder: verification.finder() };
        let robots = RobotsChecks { pool: pool.clone(), finder: verification.finder() };
        let _housekeeping = [
            robots::start(robots.clone(), clock.clone(), settings.domains.proof_round),
            checks::start(manifests.clone(), clock.clone(), settings.domains.proof_round),
            domains::recheck::start(upkeep.clone(), clock.clone()),
            reconciliation_alert::start(pool.clone(), clock.clone()),
            delivery_retention::start(pool.clone(), clock.clone(), settings.delivery_log),
            sign_in::session_cleanup::start(pool.clone(), clock.clone(), settings.sign_in.sign_in_keep),
        ];
        Ok(Arc::new(Self {
            pool,
            directory,
            uses,
            clock,
            bodies,
            sealer,
            receivers,
            mailer,
            sign_in,
            rates,
            budgets,
            delegations_per_pair: settings.sign_in.delegations_per_pair,
            request_slots,
            manual_send_limits: ManualSendLimits::default(),
            verification,
            recheck: upkeep,
            manifests,
            robots,
            _housekeeping,
        }))
    }

    /// Returns the current time with the precision of responses, so stored and returned times are equal.
    fn now(&self) -> DateTime<Utc> {
        self.clock.now().trunc_subsecs(3)
    }

    /// Sends the same email to each address, with a link to the pages for people if they are configured.
    async fn email_all(&self, readers: Result<Vec<String>, sqlx::Error>, subject: &str, text: &str) {
        let text = format!("{text}\n{}", opening(self.sign_in.entrance()));
        self.mailer.send_each(readers, subject, &text).await;
    }

    /// Waits for pending emails, at most `MAIL_GRACE`. Emails dropped after that must be requested again.
    pub async fn finish(&self) {
        let mails = self.sign_in.mails();
        mails.close();
        if tokio::time::timeout(MAIL_GRACE, mails.wait()).await.is_err() {
            tracing::warn!("stopped before all emails were sent");
        }
    }

    /// Checks every domain that is due, as the process does periodically.
    pub async fn recheck_domains(&self) -> Result<RecheckCounts, sqlx::Error> {
        self.recheck.round(&self.clock).await
    }

    /// Writes the webhook messages of new reconciliation exceptions, as the process does periodically. Returns their number.
    pub async fn announce_exceptions(&self) -> Result<usize, ApiError> {
        reconciliation_alert::announce_all(&self.pool, self.clock.now()).await
    }

    /// Checks every manifest that is due, as the process does periodically. Returns their number.
    pub async fn refresh_manifests(&self) -> Result<usize, sqlx::Error> {
        self.manifests.round(&self.clock).await
    }

    /// Checks every robots.txt file that is due, as the process does periodically. Returns their number.
    pub async fn check_robots_files(&self) -> Result<usize, sqlx::Error> {
        self.robots.round(&self.clock).await
    }

    pub fn probes(&self) -> Vec<Probe> {
        vec![Probe::database(self.pool.clone())]
    }
}

/// Creates and updates the tables. Prints to stderr which privileges it couldn't revoke. Idempotent, also concurrently.
pub async fn migrate(settings: &Settings) -> anyhow::Result<()> {
    let pool = databases::postgres(&settings.postgres)?;
    databases::migrate_postgres(&pool).await?;
    if let Some(statement) = roles::statement_for_administrator(&pool).await? {
        let user = pool.connect_options().get_username().to_owned();
        eprintln!(
            "DATABASE_URL: the tables are up to date, but the services can create large objects, and the user {user} can't revoke that; \
             ask an administrator to run in this database: {statement}"
        );
    }
    Ok(())
}

/// Returns the process that `cli` describes.
pub fn start(cli: Cli) -> Process {
    Box::pin(async move {
        let Cli { command, process, settings } = cli.clone();
        match command {
            Some(Command::Health) => health::run_health_command(process.listen).await,
            Some(Command::Migrate) => process::run_once(async { migrate(&settings.for_commands(process.profile)?).await }).await,
            Some(Command::Admin(admin)) => {
                command_output::run(async { admin.run(&settings.for_admin(process.profile).await?, Clock::System).await }).await
            }
            None => process::serve(&process, |stop| run(cli, Clock::System, stop)).await,
        }
    })
}

/// Serves until `stop`, then drains requests.
pub async fn run(mut cli: Cli, clock: Clock, stop: CancellationToken) -> anyhow::Result<()> {
    cli.settings.sign_in = cli.settings.sign_in.at(cli.process.listen);
    if cli.process.profile.is_production() {
        cli.settings.harden()?;
        roles::reject_excess_privileges(&cli.settings.postgres, Role::Identity).await?;
    }
    cli.settings.webhooks.warn_if_open();
    let state = State::connect(&cli.settings, clock).await?;
    let listener = server::listen(cli.process.listen, "TELEMETRY_LISTEN").await?;
    let _watch = health::watch(state.probes());
    let own = routes(Arc::clone(&state)).merge(health::routes(state.probes())).merge(openapi::routes(&[Surface::Identity]));
    let transport = cli.settings.sign_in.transport().unwrap_or_else(|| cli.process.profile.transport());
    let limits = server::ServerLimits::for_clients(&cli.settings.sign_in.clients).with_transport(transport);
    let router = http::with_request_middleware_over(transport, own);
    tracing::info!(listen = %cli.process.listen, "identity-api is listening");
    server::serve(listener, router, limits, stop).await;
    state.finish().await;
    Ok(())
}
