//! Health, readiness, and reads while a store is unavailable.

use crate::test_app::{Query, TestApp, fetch_on, own_clickhouse, serve};
use clap::Parser;
use local::ports::Ports;
use local::test_servers::Postgres;
use query_api::{Cli, Settings};
use reqwest::StatusCode;
use service_kit::databases;
use service_kit::settings::PostgresSettings;
use service_kit::testing::{TestProcess, client, eventually};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Maximum time until a read returns 503.
const AWAY_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn process_is_healthy_and_ready() {
    let app = Query::start().await;
    assert_eq!(app.read("", "/health", &[]).await.raw, r#"{"status":"ok"}"#);
    let ready = app.read("", "/ready", &[]).await;
    assert_eq!(ready.body, serde_json::json!({"status": "ok", "database": "ok", "clickhouse": "ok"}));
}

#[tokio::test]
async fn health_subcommand_sets_the_exit_code() {
    let app = Query::start().await;
    let up: SocketAddr = app.server.url.trim_start_matches("http://").parse().unwrap();
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (listen, is_up) in [(up, true), (down, false)] {
        let settings = [
            ("TELEMETRY_LISTEN", listen.to_string()),
            ("CLICKHOUSE_URL", "http://localhost".to_owned()),
            ("DATABASE_URL", "postgres://localhost".to_owned()),
        ];
        let code = TestProcess::service(&["health"], &settings).exit_code().await;
        assert_eq!(code, Some(i32::from(!is_up)));
    }
}

#[tokio::test]
async fn process_serves_until_stopped() {
    let app = Query::start().await;
    let listen = format!("127.0.0.1:{}", Ports::default().choose(&[]).unwrap());
    let settings = [
        ("--listen", &listen),
        ("--clickhouse-url", &app.stores.clickhouse.clickhouse_url),
        ("--clickhouse-database", &app.stores.clickhouse.clickhouse_database),
        ("--database-url", &app.stores.postgres.database_url),
    ];
    let cli =
        Cli::parse_from(["query-api"].into_iter().chain(settings.into_iter().flat_map(|(name, value)| [name, value.as_str()])));
    let stop = CancellationToken::new();
    let running = tokio::spawn(query_api::run(cli, stop.clone()));
    let url = format!("http://{listen}/ready");
    eventually("the process is ready", async || Some(client().get(&url).send().await.ok()?.status().is_success())).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(client().get(&url).send().await.is_err());
}

#[tokio::test]
async fn returns_503_without_clickhouse() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let folder = tempfile::tempdir().unwrap();
    let (mut own, clickhouse) = own_clickhouse(folder.path()).await;
    let app = Query::through(app, clickhouse).await;

    assert_eq!(app.get_summary(&owner.key, &[]).await.status, StatusCode::OK);
    own.pause();
    expect_away(&app, &owner.key, "clickhouse").await;
    assert_eq!(app.read("", "/resolve", &[("domain", "example.com")]).await.status, StatusCode::OK);
    own.resume();
    eventually("reads succeed again", async || (app.get_summary(&owner.key, &[]).await.status == StatusCode::OK).then_some(()))
        .await;
    own.kill_9();
    expect_away(&app, &owner.key, "clickhouse").await;
}

#[tokio::test]
async fn i8_i7_returns_503_without_postgres() {
    let app = Query::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let mut own = tokio::task::spawn_blocking(move || Postgres::start(&path)).await.unwrap().unwrap();
    let postgres = PostgresSettings { database_url: own.url() };
    let pool = databases::postgres(&postgres).unwrap();
    databases::migrate_postgres(&pool).await.unwrap();
    let owner = service_kit::testing::Seed(&pool).owner_of("example.com").await;
    let settings = Settings::with_stores(app.stores.clickhouse.clone(), postgres);
    let app = Query::served_by(app, serve(&settings).await);
    app.insert(&[fetch_on("example.com", 1)]).await;

    assert_eq!(app.total(&owner.key, &[]).await, 1);
    own.pause();
    expect_away(&app, &owner.key, "database").await;
    assert_eq!(app.read("", "/resolve", &[("domain", "example.com")]).await.status, StatusCode::SERVICE_UNAVAILABLE);
    own.resume();
    eventually("reads succeed again", async || (app.get_summary(&owner.key, &[]).await.status == StatusCode::OK).then_some(()))
        .await;
    own.kill_9();
    expect_away(&app, &owner.key, "database").await;
}

async fn expect_away(app: &TestApp, key: &str, dependency: &str) {
    let asked = Instant::now();
    let url = format!("{}/content-owners/summary", app.server.url);
    let response = client().get(url).header("x-api-key", key).send().await.unwrap();
    assert!(asked.elapsed() < AWAY_WITHIN, "{:?}", asked.elapsed());
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    let problem = response.text().await.unwrap();
    assert!(!problem.contains("127.0.0.1") && !problem.to_lowercase().contains("clickhouse"), "{problem}");

    let asked = Instant::now();
    let ready = app.read("", "/ready", &[]).await;
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    assert_eq!((ready.status, ready.body["reason"].as_str()), (503, Some(dependency)));
    assert_eq!(app.read("", "/health", &[]).await.status, StatusCode::OK);
}
