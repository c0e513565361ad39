//! PostgreSQL and ClickHouse clients with timeouts, and errors that name the unavailable server without its password.

use crate::egress::tls_trust;
use crate::settings::{ClickHouseSettings, PostgresSettings};
use anyhow::Context;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgPool};
use std::str::FromStr;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// Server-side timeouts of statements and of idle transactions, in milliseconds. They release the locks of a process that
/// crashed or lost its network.
const LIMITS: [(&str, &str); 2] = [("statement_timeout", "3000"), ("idle_in_transaction_session_timeout", "30000")];
/// Timeout for the last statement on a connection that returns to the pool. Longer than the statement timeout.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout for pinging an idle connection, short enough to open a new one while the caller waits.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_CONNECTIONS: u32 = 16;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnavailableStore(String);

/// Returns a pool that connects on first use. Acquiring a connection has a timeout, so a stopped database causes an error, not a hang.
pub fn postgres(settings: &PostgresSettings) -> anyhow::Result<PgPool> {
    postgres_with(settings, &[])
}

/// Like [`postgres`], with session settings that database functions read.
pub fn postgres_with(settings: &PostgresSettings, session: &[(&str, String)]) -> anyhow::Result<PgPool> {
    let options = postgres_options(settings)?.options(LIMITS).options(session.iter().cloned());
    let pool = PgPoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT).max_connections(MAX_CONNECTIONS);
    // The pool's own ping has no timeout: a connection lost by the network would occupy its slot until the system closes it
    // 15 minutes later.
    let pool = pool.test_before_acquire(false).before_acquire(|connection, _| {
        Box::pin(async { Ok(timeout(PING_TIMEOUT, connection.ping()).await.is_ok_and(|answer| answer.is_ok())) })
    });
    let pool = pool.after_release(|connection, _| {
        Box::pin(async {
            timeout(RELEASE_TIMEOUT, connection.ping()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true)
        })
    });
    Ok(pool.connect_lazy_with(options))
}

pub(crate) fn postgres_options(settings: &PostgresSettings) -> anyhow::Result<PgConnectOptions> {
    let is_postgres = ["postgres://", "postgresql://"].iter().any(|scheme| settings.database_url.starts_with(scheme));
    let options = PgConnectOptions::from_str(&settings.database_url).ok().filter(|_| is_postgres);
    options.context("DATABASE_URL: not a PostgreSQL URL; use postgres://user:password@host:5432/database")
}

/// Returns an error with the address, without user name and password.
pub(crate) fn unreachable_postgres(pool: &PgPool, error: &sqlx::Error) -> anyhow::Error {
    let options = pool.connect_options();
    let (host, port) = (options.get_host(), options.get_port());
    if let sqlx::Error::Database(refusal) = error {
        return rejected_by_postgres(pool, refusal.as_ref());
    }
    UnavailableStore(format!("DATABASE_URL={host}:{port}: PostgreSQL is unavailable ({error}); start it or correct the address"))
        .into()
}

/// Returns the error for a server that responded with a rejection, with a fix by SQLSTATE. Names user and database, but never the password.
pub(crate) fn rejected_by_postgres(pool: &PgPool, refusal: &dyn DatabaseError) -> anyhow::Error {
    let options = pool.connect_options();
    let (host, port, user) = (options.get_host(), options.get_port(), options.get_username());
    let database = options.get_database().unwrap_or(user);
    let fix = match refusal.code().as_deref() {
        Some("42P01") => {
            return anyhow::anyhow!(
                "DATABASE_URL={host}:{port}/{database}: the tables are missing; run `telemetry identity-api migrate`"
            );
        }
        Some("28P01" | "28000") => format!("correct the user name {user} or its password, or allow it in pg_hba.conf"),
        Some("3D000") => format!("create the database {database} or correct its name"),
        Some("42501") => format!("grant the user {user} the missing privileges in the database {database}"),
        _ => "check its log".to_owned(),
    };
    anyhow::anyhow!("DATABASE_URL={host}:{port}/{database}: PostgreSQL returned an error ({}); {fix}", refusal.message())
}

pub async fn postgres_responds(pool: &PgPool, within: Duration) -> bool {
    timeout(within, sqlx::query("SELECT 1").execute(pool)).await.is_ok_and(|answer| answer.is_ok())
}

/// Returns a client of the configured database. Disables the query condition cache, because it has returned too few rows (see
/// `clickhouse_version`).
pub fn clickhouse(settings: &ClickHouseSettings) -> anyhow::Result<clickhouse::Client> {
    let client = clickhouse_server(settings)?.with_database(&settings.clickhouse_database);
    Ok(client.with_setting("use_query_condition_cache", "0"))
}

pub(crate) fn clickhouse_server(settings: &ClickHouseSettings) -> anyhow::Result<clickhouse::Client> {
    let (url, user, password) = clickhouse_address(settings)?;
    let client = if url.scheme() == "https" { over_tls(settings)? } else { clickhouse::Client::default() };
    let mut client = client.with_url(url.as_str());
    if !user.is_empty() {
        client = client.with_user(user);
    }
    if let Some(password) = password {
        client = client.with_password(password);
    }
    Ok(client)
}

/// Returns the address without credentials, the user (possibly empty), and the password.
pub(crate) fn clickhouse_address(settings: &ClickHouseSettings) -> anyhow::Result<(Url, String, Option<String>)> {
    let mut url = Url::parse(&settings.clickhouse_url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .context("CLICKHOUSE_URL: not an HTTP URL; use http://user:password@host:8123")?;
    let (user, password) = (url.username().to_owned(), url.password().map(str::to_owned));
    let stripped = url.set_username("").is_ok() && url.set_password(None).is_ok();
    anyhow::ensure!(stripped, "CLICKHOUSE_URL: not an HTTP URL with a host");
    Ok((url, user, password))
}

/// Returns a client that trusts the system's certificate authorities and the configured one.
fn over_tls(settings: &ClickHouseSettings) -> anyhow::Result<clickhouse::Client> {
    let tls = tls_trust::client_config("TELEMETRY_CLICKHOUSE_CA", settings.clickhouse_ca.as_deref())?;
    let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build();
    // ClickHouse closes connections that are idle for three seconds.
    let http = Client::builder(TokioExecutor::new()).pool_idle_timeout(Duration::from_secs(2)).build(connector);
    Ok(clickhouse::Client::with_http_client(http))
}

/// Returns the user to sign in as; ClickHouse's `default` if the URL doesn't contain one.
pub(crate) fn clickhouse_user(settings: &ClickHouseSettings) -> String {
    let user = Url::parse(&settings.clickhouse_url).map(|url| url.username().to_owned()).unwrap_or_default();
    if user.is_empty() { "default".to_owned() } else { user }
}

pub(crate) fn address(settings: &ClickHouseSettings) -> String {
    let url = Url::parse(&settings.clickhouse_url).ok();
    url.and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))).unwrap_or_default()
}

/// Returns an error with the address, without user name and password.
pub(crate) fn unreachable_clickhouse(settings: &ClickHouseSettings, error: &clickhouse::error::Error) -> anyhow::Error {
    if error.to_string().contains("(UNKNOWN_DATABASE)") {
        let database = &settings.clickhouse_database;
        return anyhow::anyhow!(
            "TELEMETRY_CLICKHOUSE_DATABASE={database}: the database does not exist; create it with `telemetry stream-workers prepare` or correct its name"
        );
    }
    let address = address(settings);
    if ["(AUTHENTICATION_FAILED)", "(REQUIRED_PASSWORD)", "(WRONG_PASSWORD)"].iter().any(|why| error.to_string().contains(why)) {
        return anyhow::anyhow!(
            "CLICKHOUSE_URL={address}: ClickHouse rejected the user; correct the user name or password in the URL"
        );
    }
    UnavailableStore(format!("CLICKHOUSE_URL={address}: ClickHouse is unavailable ({error}); start it or correct the address"))
        .into()
}

pub async fn clickhouse_responds(client: &clickhouse::Client, within: Duration) -> bool {
    timeout(within, client.query("SELECT 1").fetch_one::<u8>()).await.is_ok_and(|answer| answer.is_ok())
}
