//! The program against the real service and servers: a run with a few thousand events of all kinds finds no violation.

use axum::Router;
use clap::Parser;
use service_kit::clock::Clock;
use service_kit::http;
use service_kit::testing::{TestServer, TestStores};
use std::process::{Output, Stdio};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Gateway, reads and worker in this process, with this test's stores.
struct Service {
    stores: TestStores,
    server: TestServer,
    _spill: TempDir,
    _stop: DropGuard,
}

impl Service {
    async fn start() -> Self {
        let stores = TestStores::fresh().await;
        let spill = tempfile::tempdir().expect("a temporary folder can be created");
        let kafka = stores.kafka.clone();
        let broker =
            ["--kafka-brokers", &kafka.kafka_brokers, "--topic", &kafka.topic, "--rejected-topic", &kafka.rejected_topic];
        let clickhouse = stores.clickhouse.clone();
        let clickhouse =
            ["--clickhouse-url", &clickhouse.clickhouse_url, "--clickhouse-database", &clickhouse.clickhouse_database];
        let postgres = ["--database-url", &stores.postgres.database_url];
        let spill_dir = ["--spill-dir", spill.path().to_str().expect("the path of a temporary folder is UTF-8")];
        let gateway: ingest_gateway::Cli = settings(&[&broker, &postgres, &spill_dir]);
        let query: query_api::Cli = settings(&[&clickhouse, &postgres]);
        let worker: stream_workers::Cli = settings(&[&broker, &clickhouse, &postgres, &["--group", &stores.name]]);
        let gateway = ingest_gateway::State::connect(&gateway.settings, Clock::System).await.expect("the gateway connects");
        let query = query_api::State::connect(&query.settings).await.expect("the reads connect");
        let routes: Router = ingest_gateway::routes(gateway).merge(query_api::routes(query));
        let server = TestServer::start(http::with_request_middleware(routes)).await;
        let stop = CancellationToken::new();
        let working = stop.clone();
        tokio::spawn(
            async move { stream_workers::run_worker(&worker.settings.or_exit(), working).await.expect("the worker works") },
        );
        Self { stores, server, _spill: spill, _stop: stop.drop_guard() }
    }

    /// Runs the program against this service, with only these arguments.
    async fn load(&self, arguments: &[&str]) -> Output {
        let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_loadgen"));
        program.args(["run", "--base-url", &self.server.url]).args(arguments);
        program.env_clear().stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the program runs")
    }
}

/// Parses settings from a command line. The others have their defaults.
fn settings<S: Parser>(arguments: &[&[&str]]) -> S {
    let arguments = arguments.iter().flat_map(|group| group.iter().copied());
    S::try_parse_from(std::iter::once("test").chain(arguments)).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_all_options_succeeds() {
    let service = Service::start().await;
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    let database_url = &service.stores.postgres.database_url;
    let mut arguments = vec!["--database-url", database_url, "--json", json.to_str().unwrap()];
    arguments.extend("--events 4000 --duration 60s --batch 10 --concurrency 16 --observers 4".split(' '));
    arguments.extend("--duplicates 20 --late 10 --tenants 3 --skew 1 --read-every 100ms --seed 1".split(' '));
    let output = service.load(&arguments).await;
    assert!(output.status.success(), "{}", said(&output));

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["seed"], 1);
    assert_eq!(report["loads"][0]["answers"]["201"], 400, "{}", said(&output));
    assert_eq!(report["oracle"]["acked"], report["oracle"]["possible"]);
    assert!(report["oracle"]["acked"].as_u64().unwrap() > 500, "{}", said(&output));
    assert!(report["oracle"]["checks"].as_u64().unwrap() > 6, "{}", said(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_events_set_exit_code_1() {
    let service = Service::start().await;
    // Accepts all requests and stores none of them.
    let sink = crate::fake_service::start(crate::fake_service::ResponseBehavior { status: 201, stall: None }).await;
    let database_url = &service.stores.postgres.database_url;
    let mut arguments = vec!["--ingest-url", &sink.url, "--database-url", database_url];
    arguments.extend("--events 5 --quiesce 1s".split(' '));
    let output = service.load(&arguments).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("lost: total_events: 0 counted, 5 acknowledged"), "{}", said(&output));
}
