//! Gateway and query API in this process with their own stores, and workers on demand.

use ingest_gateway::Durability;
use serde_json::Value;
use service_kit::clock::Clock;
use service_kit::http;
use service_kit::roles::Role;
use service_kit::testing::{TestLog, TestProcess, TestResponse, TestServer, TestStores, client, free_address, send_request};
use stream_workers::{RetentionSettings, Settings, Tuning};
use tokio_util::sync::CancellationToken;

/// A short time, so that the tests are fast.
const TAKEOVER_AFTER_MS: u64 = 1_000;

/// A test's gateway, log, worker and query API.
pub(crate) struct Pipeline {
    pub(crate) stores: TestStores,
    pub(crate) log: TestLog,
    gateway: TestServer,
    query: TestServer,
    _spill: tempfile::TempDir,
}

impl Pipeline {
    pub(crate) async fn start() -> Self {
        Self::start_on(TestStores::fresh().await).await
    }

    pub(crate) async fn start_on(stores: TestStores) -> Self {
        let spill = tempfile::tempdir().unwrap();
        let durability = Durability { spill_dir: Some(spill.path().to_owned()), ..Default::default() };
        let (own, of_query) = (stores.signed_in_as(Role::Gateway), stores.signed_in_as(Role::Query));
        let usual = ingest_gateway::Settings::on(own.kafka, own.postgres);
        let gateway = ingest_gateway::Settings { durability, ..usual };
        let gateway = ingest_gateway::State::connect(&gateway, Clock::System).await.unwrap();
        let gateway = TestServer::start(http::with_request_middleware(ingest_gateway::routes(gateway))).await;
        let query = query_api::Settings::with_stores(of_query.clickhouse, of_query.postgres);
        let query = TestServer::start(query_api::router(query_api::State::connect(&query).await.unwrap())).await;
        Self { log: TestLog::connect(&stores.kafka), stores, gateway, query, _spill: spill }
    }

    pub(crate) fn worker(&self) -> Settings {
        Settings {
            kafka: self.stores.kafka.clone(),
            clickhouse: self.stores.signed_in_as(Role::Worker).clickhouse,
            postgres: self.stores.signed_in_as(Role::Worker).postgres,
            tuning: Tuning {
                group: self.stores.name.clone(),
                block_age_ms: 50,
                takeover_after_ms: TAKEOVER_AFTER_MS,
                shard: schemas::shard::Shard::default(),
            },
            keep: RetentionSettings::default(),
        }
    }

    /// Runs a worker in the background until `stop`.
    pub(crate) fn spawn_worker(&self, stop: &CancellationToken) -> tokio::task::JoinHandle<anyhow::Result<()>> {
        let (settings, stop) = (self.worker(), stop.clone());
        tokio::spawn(async move { stream_workers::run_worker(&settings, stop).await })
    }

    /// Waits until the workers have stored everything.
    pub(crate) async fn caught_up(&self) {
        self.log.caught_up(&self.stores.clickhouse).await;
    }

    /// Runs a worker until it has stored everything.
    pub(crate) async fn run_worker_until_idle(&self) {
        let stop = CancellationToken::new();
        let worker = self.spawn_worker(&stop);
        self.caught_up().await;
        stop.cancel();
        worker.await.unwrap().unwrap();
    }

    pub(crate) async fn try_post(&self, path: &str, key: &str, body: &Value) -> TestResponse {
        let request = client().post(self.gateway_url(path)).header("content-type", "application/json");
        send_request(request.header("x-api-key", key).body(body.to_string())).await
    }

    /// Returns a URL of the gateway.
    pub(crate) fn gateway_url(&self, path: &str) -> String {
        format!("{}{path}", self.gateway.url)
    }

    /// Sends a request and asserts that it returns 201.
    pub(crate) async fn post(&self, path: &str, key: &str, body: &Value) -> TestResponse {
        self.try_post(path, key, body).await.expect(201)
    }

    pub(crate) async fn get(&self, path: &str, key: &str) -> TestResponse {
        send_request(client().get(self.query_url(path)).header("x-api-key", key)).await
    }

    /// Returns a URL of the reads.
    pub(crate) fn query_url(&self, path: &str) -> String {
        format!("{}{path}", self.query.url)
    }

    /// Returns the body, or `None` if the response isn't 200.
    pub(crate) async fn try_read(&self, key: &str, path: &str) -> Option<String> {
        let request = client().get(self.query_url(path)).header("x-api-key", key);
        request.send().await.ok().filter(|response| response.status() == 200)?.text().await.ok()
    }

    /// Returns the body of a 200 response.
    pub(crate) async fn read(&self, key: &str, path: &str) -> String {
        let response = client().get(self.query_url(path)).header("x-api-key", key).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    pub(crate) async fn clickhouse(&self, statement: &str) {
        service_kit::databases::clickhouse(&self.stores.clickhouse).unwrap().query(statement).execute().await.unwrap();
    }

    /// Runs a command of the worker binary. Returns its exit code, stdout and stderr.
    pub(crate) async fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut process = process("stream-workers", arguments, &self.environment());
        let code = process.exit_code().await;
        (code, process.stdout(), process.stderr())
    }

    /// Returns the settings of a worker process.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let own = [
            ("TELEMETRY_LISTEN", free_address().to_string()),
            ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
            ("TELEMETRY_TAKEOVER_AFTER_MS", TAKEOVER_AFTER_MS.to_string()),
        ];
        own.into_iter().chain(self.stores.environment()).collect()
    }
}

/// Starts a process of one service, or of all.
pub(crate) fn process<N: AsRef<str>, V: AsRef<str>>(name: &str, arguments: &[&str], settings: &[(N, V)]) -> TestProcess {
    TestProcess::service(&[&[name], arguments].concat(), settings)
}
