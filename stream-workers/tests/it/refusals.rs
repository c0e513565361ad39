//! F14, F15, F16: ClickHouse refuses rows for a while, or until an operator fixes it. Nothing is skipped, nothing becomes a dead
//! letter, and the worker continues by itself.

use crate::scrape;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, event, record};
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use service_kit::testing::{TestProcess, TestServer, ask_clickhouse, eventually, free_address};
use std::sync::{Arc, Mutex};

/// A ClickHouse whose account has other settings: an HTTP server before the real one that adds them to every request.
struct Restricted {
    server: TestServer,
    settings: Arc<Mutex<String>>,
}

impl Restricted {
    async fn before(app: &TestApp, settings: &str) -> Self {
        let settings = Arc::new(Mutex::new(settings.to_owned()));
        let (real, added) = (app.stores.clickhouse.clickhouse_url.trim_end_matches('/').to_owned(), Arc::clone(&settings));
        let forward = move |request: Request| {
            let url = format!("{real}{}&{}", request.uri(), added.lock().unwrap());
            forward(url, request)
        };
        Self { server: TestServer::start(Router::new().fallback(forward)).await, settings }
    }

    fn set(&self, settings: &str) {
        settings.clone_into(&mut self.settings.lock().unwrap());
    }
}

async fn forward(url: String, request: Request) -> Response {
    let content_type = request.headers().get("content-type").cloned();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let mut passed = ask_clickhouse(reqwest::Method::POST, &url).body(body);
    if let Some(content_type) = content_type {
        passed = passed.header("content-type", content_type);
    }
    let answer = passed.send().await.unwrap();
    let code = answer.headers().get("x-clickhouse-exception-code").cloned();
    let head = code.map(|code| [("x-clickhouse-exception-code", code)]);
    let status = answer.status();
    let body = answer.bytes().await.unwrap();
    match head {
        Some(head) => (status, head, body).into_response(),
        None => (status, body).into_response(),
    }
}

/// A worker as a process, and its metrics.
struct Watched {
    process: TestProcess,
    metrics: String,
}

impl Watched {
    async fn start(app: &TestApp) -> Self {
        Self::start_with(app, &app.stores.clickhouse.clickhouse_url, 100).await
    }

    async fn start_with(app: &TestApp, clickhouse_url: &str, block_age_ms: u32) -> Self {
        let (listen, metrics) = (free_address().to_string(), free_address().to_string());
        let mut environment = app.environment(&listen, &metrics);
        environment.retain(|(name, _)| *name != "CLICKHOUSE_URL");
        environment.push(("CLICKHOUSE_URL", clickhouse_url.to_owned()));
        environment.push(("TELEMETRY_BLOCK_AGE_MS", block_age_ms.to_string()));
        let process = app.process_in(&listen, &environment).await;
        Self { process, metrics }
    }

    async fn series(&self, name: &str) -> Option<f64> {
        scrape::series(&self.metrics, name).await
    }

    /// Waits until a series has reached a value.
    async fn reaches(&self, name: &str, least: f64) {
        eventually(&format!("{name} reaches {least}"), || async { (self.series(name).await? >= least).then_some(()) }).await;
    }
}

const REPEATED: &str = "worker_statements_repeated_total";

fn stream(events: u128) -> Vec<(i32, Value)> {
    (0..events).map(|n| (i32::try_from(n).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event(n)]))).collect()
}

fn ids(events: u128) -> Vec<String> {
    (0..events).map(|n| format!("event-{n:06}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_column_stops_the_writer_until_it_is_fixed() {
    let app = TestApp::new().await;
    let mut worker = Watched::start(&app).await;
    app.put(&stream(30)).await;
    app.caught_up().await;

    for (stored, (harm, fix)) in (60..).step_by(30).zip([
        (
            "ALTER TABLE reports DROP COLUMN output_id",
            "ALTER TABLE reports ADD COLUMN output_id String CODEC(ZSTD(1)) AFTER turn_id",
        ),
        ("RENAME TABLE events TO elsewhere", "RENAME TABLE elsewhere TO events"),
    ]) {
        app.clickhouse.query(harm).execute().await.unwrap();
        let repeated = worker.series(REPEATED).await.unwrap_or(0.0);
        app.put(&stream(stored)[stored as usize - 30..]).await;
        worker.reaches(REPEATED, repeated + 3.0).await;
        assert_eq!(app.not_stored().await, 30, "{harm}: a block that can't be inserted isn't skipped");
        app.clickhouse.query(fix).execute().await.unwrap();
        app.caught_up().await;
    }
    assert_eq!(app.visible().await, ids(90));
    assert_eq!(app.log.set_aside().await, [], "the table was wrong, not the records");
    assert_eq!(worker.process.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_parts_slow_the_worker_down_until_merges_have_caught_up() {
    let app = TestApp::new().await;
    for statement in
        ["SYSTEM STOP MERGES events", "ALTER TABLE events MODIFY SETTING parts_to_delay_insert = 4, parts_to_throw_insert = 4"]
    {
        app.clickhouse.query(statement).execute().await.unwrap();
    }
    let mut worker = Watched::start(&app).await;
    // One block after the other, until there is one too many.
    for portion in stream(200).chunks(20) {
        app.put(portion).await;
        eventually("the block is stored or repeated", || async {
            let is_repeated = worker.series(REPEATED).await.unwrap_or(0.0) >= 2.0;
            (is_repeated || app.not_stored().await == 0).then_some(())
        })
        .await;
    }
    worker.reaches(REPEATED, 2.0).await;
    assert!(app.not_stored().await > 0, "the worker waits");
    app.clickhouse.query("SYSTEM START MERGES events").execute().await.unwrap();
    eventually("the worker catches up", || async {
        // Of so few and so small parts ClickHouse merges none before they are older.
        app.clickhouse.query("OPTIMIZE TABLE events FINAL").execute().await.unwrap();
        (app.not_stored().await == 0).then_some(())
    })
    .await;
    assert_eq!(app.visible().await, ids(200));
    assert_eq!(worker.process.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_may_only_be_read_is_waited_for() {
    let app = TestApp::new().await;
    let restricted = Restricted::before(&app, "readonly=0").await;
    let mut worker = Watched::start_with(&app, &restricted.server.url, 100).await;
    app.put(&stream(30)).await;
    app.caught_up().await;
    restricted.set("readonly=2");
    app.put(&stream(60)[30..]).await;
    worker.reaches(REPEATED, 3.0).await;
    assert_eq!(app.not_stored().await, 30);
    restricted.set("readonly=0");
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(60));
    assert_eq!(app.log.set_aside().await, []);
    assert_eq!(worker.process.terminate().await, Some(0));
}
