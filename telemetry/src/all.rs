//! Runs all services in one process on one address, for development, with the routers and workers of the separate services.

mod store_accounts;
mod listen_addresses;
mod state_lock;
mod demo_data;
mod demo_env;
mod local_receiver;
mod private_file;
mod stored_key;
mod demo_tenant;
mod welcome_screen;

use anyhow::ensure;
use axum::Router;
use clap::Parser;
use identity_api::domains::DomainSettings;
use identity_api::mail::MailSettings;
use identity_api::sign_in::SignInSettings;
use identity_api::webhooks::DeliveryLogSettings;
use ingest_gateway::{DrainSettings, Durability, Limits, SessionExpiry, TokenExpiry};
use query_api::ResolveSettings;
use schemas::openapi::Surface;
use service_kit::clock::Clock;
use service_kit::health::{self, Probe};
use service_kit::http::Transport;
use service_kit::roles::Role;
use service_kit::secret_encryption::{SecretsKey, SecretsSettings};
use service_kit::settings::{
    BotSettings, ClickHouseSettings, KafkaSettings, LogFormat, PostgresSettings, ProcessSettings, Profile, WebhookSettings,
};
use service_kit::{databases, http, observability, openapi, server};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use store_accounts::StoreAccounts;
use stream_workers::deliver::{self, ClockOffset, ConcurrencySettings, DeliverSettings};
use stream_workers::{RetentionSettings, Tuning};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Run all services in one process on one address, for development
#[derive(Parser, Clone, Debug)]
#[command(name = "all")]
pub struct Cli {
    /// Address of the API and the console [default: 127.0.0.1:8080, or a free port when that is taken]
    #[arg(long, env = "TELEMETRY_LISTEN", value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,
    /// Address for Prometheus metrics [default: 127.0.0.1:9464, or a free port when that is taken]
    #[arg(long, env = "TELEMETRY_METRICS_LISTEN", value_name = "HOST:PORT")]
    metrics_listen: Option<SocketAddr>,
    /// Log filter, as in `info` or `warn,ingest_gateway=debug`
    #[arg(long, env = "TELEMETRY_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
    /// Log format
    #[arg(long, env = "TELEMETRY_LOG_FORMAT", default_value = "text", value_enum)]
    log_format: LogFormat,
    /// Environment; `production` is rejected
    #[arg(long, env = "TELEMETRY_PROFILE", default_value = "development", value_enum)]
    profile: Profile,
    /// Folder for `demo.env`, emails, and `secrets.key` if no key is set
    #[arg(long, env = "TELEMETRY_STATE_DIR", default_value = ".local", value_name = "DIR")]
    state_dir: PathBuf,
    /// Send 60 days of sample data for the demo tenant; days already sent don't change
    #[arg(long, env = "TELEMETRY_DEMO_DATA", value_name = "BOOL", action = clap::ArgAction::Set, num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    demo_data: bool,
    #[command(flatten)]
    kafka: KafkaSettings,
    #[command(flatten)]
    clickhouse: ClickHouseSettings,
    #[command(flatten)]
    postgres: PostgresSettings,
    #[command(flatten)]
    secrets: SecretsSettings,
    #[command(flatten)]
    webhooks: WebhookSettings,
    #[command(flatten)]
    mail: MailSettings,
    #[command(flatten)]
    sign_in: SignInSettings,
    #[command(flatten)]
    domains: DomainSettings,
    #[command(flatten)]
    delivery_log: DeliveryLogSettings,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    durability: Durability,
    #[command(flatten)]
    resolving: ResolveSettings,
    #[command(flatten)]
    clicks: query_api::ClickSettings,
    #[command(flatten)]
    reads: query_api::ReadSettings,
    #[command(flatten)]
    statements: query_api::StatementSettings,
    #[command(flatten)]
    drains: DrainSettings,
    #[command(flatten)]
    bots: BotSettings,
    #[command(flatten)]
    expiry: TokenExpiry,
    #[command(flatten)]
    session_expiry: SessionExpiry,
    #[command(flatten)]
    keep: RetentionSettings,
    #[command(flatten)]
    worker: Tuning,
    #[command(flatten)]
    pace: ConcurrencySettings,
}

impl Cli {
    fn gateway(&self, postgres: PostgresSettings) -> ingest_gateway::Settings {
        let spill_dir = self.durability.spill_dir.clone().unwrap_or_else(|| self.state_dir.join("spill"));
        ingest_gateway::Settings {
            kafka: self.kafka.clone(),
            postgres,
            clients: self.sign_in.clients.clone(),
            limits: self.limits.clone(),
            durability: Durability { spill_dir: Some(spill_dir), ..self.durability.clone() },
            drains: self.drains.clone(),
            bots: self.bots.clone(),
            secrets: self.secrets.clone(),
            expiry: self.expiry.clone(),
            session_expiry: self.session_expiry.clone(),
            webhooks: self.webhooks.clone(),
        }
    }

    fn worker(&self, clickhouse: ClickHouseSettings, postgres: PostgresSettings) -> stream_workers::Settings {
        stream_workers::Settings { kafka: self.kafka.clone(), clickhouse, postgres, tuning: self.worker.clone(), keep: self.keep }
    }

    fn deliverer(&self, postgres: PostgresSettings) -> DeliverSettings {
        DeliverSettings { postgres, secrets: self.secrets.clone(), webhooks: self.webhooks.clone(), pace: self.pace.clone() }
    }

    fn query(&self, clickhouse: ClickHouseSettings, postgres: PostgresSettings) -> query_api::Settings {
        query_api::Settings {
            clickhouse,
            postgres,
            resolving: self.resolving,
            clients: self.sign_in.clients.clone(),
            clicks: self.clicks.clone(),
            reads: self.reads,
            bots: self.bots.clone(),
            statements: self.statements.clone(),
            public_url: self.sign_in.public_url.clone(),
        }
    }

    /// The console calls this process's API.
    fn console(&self, process: &ProcessSettings, clock: Clock) -> anyhow::Result<Arc<web_console::State>> {
        let api_url = Url::parse(&format!("http://{}", client_address(process.listen)))?;
        let settings = web_console::Settings { api_url, public_url: self.sign_in.public_url.clone() };
        web_console::State::new(&settings, self.sign_in.clients.clone(), clock)
    }

    fn identity(&self, postgres: PostgresSettings) -> identity_api::Settings {
        let mail_dir = self.mail.mail_dir.clone().unwrap_or_else(|| self.state_dir.join("mail"));
        identity_api::Settings {
            postgres,
            secrets: self.secrets.clone(),
            webhooks: self.webhooks.clone(),
            mail: MailSettings { mail_dir: Some(mail_dir), ..self.mail.clone() },
            sign_in: self.sign_in.clone(),
            domains: self.domains.clone(),
            delivery_log: self.delivery_log,
        }
    }
}

/// Returns the address at which this machine reaches a listener.
fn client_address(listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() { SocketAddr::from((Ipv4Addr::LOCALHOST, listen.port())) } else { listen }
}

/// Makes emailed links open the console's sign-in page unless another one is configured.
fn with_console(mut sign_in: SignInSettings) -> SignInSettings {
    sign_in.sign_in_url = sign_in.sign_in_url.or_else(|| sign_in.public_url.as_ref()?.join(web_console::SIGN_IN).ok());
    sign_in
}

/// Prepares the stores, creates the demo tenant, and serves until `stop`.
pub async fn run(mut cli: Cli, clock: Clock, stop: CancellationToken) -> anyhow::Result<()> {
    ensure!(
        !cli.profile.is_production(),
        "TELEMETRY_PROFILE=production: `telemetry all` creates a demo tenant and writes its keys to a file; run the services separately, or set it to development"
    );
    let _claim = state_lock::lock(&cli.state_dir)?;
    let listener = listen_addresses::listen(cli.listen).await?;
    let metrics_listen = listen_addresses::metrics(cli.metrics_listen).await?;
    let process = ProcessSettings {
        listen: listener.local_addr()?,
        metrics_listen,
        log: cli.log.clone(),
        log_format: cli.log_format,
        profile: cli.profile,
    };
    observability::start(&process)?;
    cli.sign_in = with_console(cli.sign_in.at(process.listen));
    let key = |set: &mut Option<SecretsKey>, file| {
        stored_key::configured_or_stored(set.take(), &cli.state_dir, file).map(|key| *set = key)
    };
    key(&mut cli.secrets.secrets_key, "secrets.key")?;
    key(&mut cli.statements.statement_keys, "statement.key")?;
    // Warn before adding the local receiver, which is no reason to warn.
    cli.webhooks.warn_if_open();
    cli.webhooks = local_receiver::allow_local_receiver(cli.webhooks, &cli.state_dir)?;

    let accounts = StoreAccounts::prepare(&cli).await?;
    let identity_account = accounts.postgres(Role::Identity)?;
    let demo = demo_tenant::create(&cli, &identity_account, &process, &clock).await?;

    let gateway = ingest_gateway::State::connect(&cli.gateway(accounts.postgres(Role::Gateway)?), clock.clone()).await?;
    let identity = identity_api::State::connect(&cli.identity(identity_account), clock.clone()).await?;
    let query = cli.query(accounts.clickhouse(Role::Query), accounts.postgres(Role::Query)?);
    let mut probes = gateway.probes();
    probes.push(Probe::clickhouse(databases::clickhouse(&query.clickhouse)?));
    let _watch = health::watch(probes.clone());
    let query = query_api::State::connect_at(&query, clock.clone()).await?;
    let console = cli.console(&process, clock.clone())?;
    let router = combined_router(Arc::clone(&gateway), query, Arc::clone(&identity), probes).merge(web_console::routes(console));
    let transport = cli.sign_in.transport().unwrap_or(Transport::Plain);
    let router = http::with_request_middleware_over(transport, router);
    let limits = server::ServerLimits::for_clients(&cli.sign_in.clients).with_transport(transport);
    let serving = tokio::spawn(server::serve(listener, router, limits, stop.clone()));
    let worker = cli.worker(accounts.clickhouse(Role::Worker), accounts.postgres(Role::Worker)?);
    let (deliverer, stop_delivering) = (cli.deliverer(accounts.postgres(Role::Deliverer)?), stop.clone());
    let mut workers = JoinSet::new();
    workers.spawn(async move { stream_workers::run_worker(&worker, stop).await });
    workers.spawn(async move { deliver::deliver(&deliverer, ClockOffset::default(), stop_delivering).await });
    if cli.demo_data {
        let reported = demo_data::send(&demo, clock.now()).await?;
        println!(
            "Sent sample data: {} fetches from a CDN, {} from a web server, {} agent sessions and {} visit events",
            reported.edge, reported.origin, reported.sessions, reported.visit_events
        );
    }
    welcome_screen::print(&demo, &cli.state_dir);

    // All tasks end with the same token. A worker that fails ends the process, because reads would return stale data.
    let mut stopped_early = Ok(());
    while stopped_early.is_ok()
        && let Some(ended) = workers.join_next().await
    {
        stopped_early = ended?;
    }
    if stopped_early.is_ok() {
        serving.await?;
    }
    identity.finish().await;
    gateway.flush().await;
    stopped_early
}

fn combined_router(
    gateway: Arc<ingest_gateway::State>,
    query: Arc<query_api::State>,
    identity: Arc<identity_api::State>,
    probes: Vec<Probe>,
) -> Router {
    ingest_gateway::routes(gateway)
        .merge(query_api::routes(query))
        .merge(identity_api::routes(identity))
        .merge(health::routes(probes))
        .merge(openapi::routes(&Surface::ALL))
}
