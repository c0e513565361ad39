//! What tests of the services need: stores of their own on the shared servers, seeded organisations, a server.

mod clickhouse_proxy;
mod dns;
mod documented;
mod log;
mod npm;
mod process;
mod receiver;
mod seed;
mod stores;

pub use clickhouse_proxy::{ClickHouseProxy, ClickHouseRequest};
pub use dns::{DnsRecord, TestDns};
pub use log::{SetAside, TestLog};
pub use npm::npm_package;
pub use process::{TestProcess, be_the_service, free_address};
pub use receiver::{TestAuthority, TestReceiver};
pub use seed::{Seed, SeededOrg};
pub use stores::TestStores;

use crate::client_address::ClientSettings;
use crate::server::Limits;
use axum::Router;
use documented::Undocumented;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long an eventual truth may take on a busy machine; a broker waits 45 s for a member that was killed.
const PATIENCE: Duration = Duration::from_secs(150);

/// A router served on a port of its own until it is dropped. Whatever it has answered must stand in the OpenAPI document.
pub struct TestServer {
    pub url: String,
    _stop: DropGuard,
    _undocumented: Undocumented,
}

impl TestServer {
    /// Serves `router`. All of a test's clients have one address, so that no share of connections is kept.
    pub async fn start(router: Router) -> Self {
        let clients = ClientSettings { connections_per_address: 0, ..ClientSettings::default() };
        Self::with(Limits::of(&clients), router).await
    }

    pub async fn with(limits: Limits, router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port 0 is always free");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let stop = CancellationToken::new();
        let undocumented = Undocumented::default();
        tokio::spawn(crate::server::serve(listener, undocumented.watch(router), limits, stop.clone()));
        Self { url, _stop: stop.drop_guard(), _undocumented: undocumented }
    }
}

/// How long a connection is kept for the next request: far less than a server keeps it, also where the machine is busy.
const IDLE: Duration = Duration::from_secs(1);

/// A client with a deadline. It keeps no connection for as long as the server does: one that the server closes for its
/// idleness at the moment of the next request would be reset.
pub fn client() -> reqwest::Client {
    // Built beside a crate that speaks TLS, the client asks for a provider even where it never needs one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().timeout(Duration::from_secs(30)).pool_idle_timeout(IDLE);
    builder.no_proxy().build().expect("the options are valid")
}

/// A request to ClickHouse by the account that the address names, told in headers: beside `Authorization`, a server that
/// `cargo local` started takes no parameters.
pub fn ask_clickhouse(method: reqwest::Method, url: &str) -> reqwest::RequestBuilder {
    let mut url = reqwest::Url::parse(url).expect("the address of ClickHouse is a URL");
    let (user, password) = (url.username().to_owned(), url.password().map(str::to_owned));
    url.set_username("").and_then(|()| url.set_password(None)).expect("the address of ClickHouse has a host");
    let asked = client().request(method, url);
    let asked = if user.is_empty() { asked } else { asked.header("X-ClickHouse-User", user) };
    password.into_iter().fold(asked, |asked, password| asked.header("X-ClickHouse-Key", password))
}

/// Before a question is asked again, for the first time and at most: most answers are there soon, and a question costs the servers
/// that all tests share more than the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Asks again until the answer is there; panics with `what` when it never comes.
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
    panic!("did not happen within {PATIENCE:?}: {what}");
}

/// How often a test does what it does: by the setting, where a longer run is asked for, else as usual.
pub fn size(setting: &str, usual: usize) -> usize {
    let given = std::env::var_os(setting).map(|size| size.to_string_lossy().parse());
    given.map_or(usual, |size| size.unwrap_or_else(|_| panic!("{setting} is a number")))
}

/// The seed of a randomised test, printed so that a failure can be replayed with `TEST_SEED=<seed>`.
pub fn random_seed() -> u64 {
    let given = std::env::var_os("TEST_SEED").map(|seed| seed.to_string_lossy().parse().expect("TEST_SEED is a number"));
    let seed = given.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    eprintln!("replay with TEST_SEED={seed}");
    seed
}
