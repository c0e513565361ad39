//! Test helpers for the services: stores on shared servers, seeded organizations, a server.

mod app;
mod clickhouse_proxy;
mod dns;
mod openapi_check;
mod log;
mod packages;
mod process;
mod receiver;
mod seed;
mod stores;

pub use app::{Credentials, TestApp, TestResponse, name_of_fault, send_request};
pub use clickhouse_proxy::{ClickHouseProxy, ClickHouseRequest};
pub use dns::{DnsRecord, TestDns};
pub use log::{DeadLetter, TestLog};
pub use packages::{npm_package, npm_packages, pip_package};
pub use process::{TestProcess, free_address, run_as_service};
pub use receiver::{TestAuthority, TestReceiver};
pub use seed::{Seed, SeededOrg};
pub use stores::TestStores;

use crate::client_address::ClientSettings;
use crate::server::ServerLimits;
use axum::Router;
use openapi_check::Undocumented;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Timeout for eventual conditions on a busy machine. A broker waits 45 s for a killed group member.
const PATIENCE: Duration = Duration::from_secs(150);

/// Serves a router on its own port until dropped. Dropping it panics if a response wasn't in the OpenAPI document.
pub struct TestServer {
    pub url: String,
    _stop: DropGuard,
    _undocumented: Undocumented,
}

impl TestServer {
    /// Serves `router` without a limit on connections per address, because all test clients share one.
    pub async fn start(router: Router) -> Self {
        let clients = ClientSettings { connections_per_address: 0, ..ClientSettings::default() };
        Self::with(ServerLimits::for_clients(&clients), router).await
    }

    pub async fn with(limits: ServerLimits, router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port 0 is always free");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let stop = CancellationToken::new();
        let undocumented = Undocumented::default();
        tokio::spawn(crate::server::serve(listener, undocumented.watch(router), limits, stop.clone()));
        Self { url, _stop: stop.drop_guard(), _undocumented: undocumented }
    }
}

/// Time for which a client keeps an idle connection: much shorter than the server's, even on a busy machine.
const IDLE: Duration = Duration::from_secs(1);

/// Returns a client with a timeout. It closes idle connections before the server does, because a request on a connection that is being
/// closed would fail.
pub fn client() -> reqwest::Client {
    // In a workspace with another TLS crate, the client requires a crypto provider even without TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().timeout(Duration::from_secs(30)).pool_idle_timeout(IDLE);
    builder.no_proxy().build().expect("the options are valid")
}

/// Returns a ClickHouse request with the URL's credentials in headers, because `cargo local` servers reject parameters next to
/// `Authorization`.
pub fn clickhouse_request(method: reqwest::Method, url: &str) -> reqwest::RequestBuilder {
    let mut url = reqwest::Url::parse(url).expect("the address of ClickHouse is a URL");
    let (user, password) = (url.username().to_owned(), url.password().map(str::to_owned));
    url.set_username("").and_then(|()| url.set_password(None)).expect("the address of ClickHouse has a host");
    let asked = client().request(method, url);
    let asked = if user.is_empty() { asked } else { asked.header("X-ClickHouse-User", user) };
    password.into_iter().fold(asked, |asked, password| asked.header("X-ClickHouse-Key", password))
}

/// First and longest pause between two attempts. Most conditions hold soon, and each attempt costs the shared servers more than a pause.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Retries until `ask` returns a value. Panics with `what` after a timeout.
pub async fn eventually<T, Fut: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> Fut) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    while tokio::time::Instant::now() < deadline {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 3 / 2);
    }
    panic!("timed out after {PATIENCE:?}: {what}");
}

/// Returns the number of iterations in the environment variable `setting`, or `usual`.
pub fn size(setting: &str, usual: usize) -> usize {
    let given = std::env::var_os(setting).map(|size| size.to_string_lossy().parse());
    given.map_or(usual, |size| size.unwrap_or_else(|_| panic!("{setting} is a number")))
}

/// Returns a randomized test's seed and prints it, so that `TEST_SEED=<seed>` repeats a failure.
pub fn random_seed() -> u64 {
    let given = std::env::var_os("TEST_SEED").map(|seed| seed.to_string_lossy().parse().expect("TEST_SEED is a number"));
    let seed = given.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    eprintln!("replay with TEST_SEED={seed}");
    seed
}
