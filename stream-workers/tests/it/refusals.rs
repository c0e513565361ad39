//! F14, F15, F16: ClickHouse takes no rows for a while, or for good until somebody mends it. Nothing is skipped, nothing
//! becomes a dead letter, and nobody has to start the worker again.

use crate::scrape;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, event, record};
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
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
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let answer = ask_clickhouse(reqwest::Method::POST, &url).body(body).send().await.unwrap();
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

    /// The lines it has logged with these words.
    fn lines(&self, words: &str) -> Vec<String> {
        self.process.stderr().lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}

fn stream(events: u128) -> Vec<(i32, Value)> {
    (0..events).map(|n| (i32::try_from(n).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event(n)]))).collect()
}

fn ids(events: u128) -> Vec<String> {
    (0..events).map(|n| format!("event-{n:06}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_lacks_a_column_stops_the_worker_until_it_is_mended_and_nothing_is_set_aside() {
    let app = TestApp::new().await;
    let mut worker = Watched::start(&app).await;
    app.put(&stream(30)).await;
    app.log.caught_up(&app.group()).await;

    for (harm, mend) in [
        (
            "ALTER TABLE observations DROP COLUMN output_id",
            "ALTER TABLE observations ADD COLUMN output_id String CODEC(ZSTD) AFTER turn_id",
        ),
        ("RENAME TABLE observations TO elsewhere", "RENAME TABLE elsewhere TO observations"),
    ] {
        app.clickhouse.query(harm).execute().await.unwrap();
        let before = worker.lines("until this is mended").len();
        app.put(&stream(60)).await;
        worker.reaches("worker_insert_stopped", 1.0).await;
        let tries = worker.series("worker_insert_retries_total{why=\"lasting\"}").await.unwrap_or(0.0);
        worker.reaches("worker_insert_retries_total{why=\"lasting\"}", tries + 3.0).await;
        assert_eq!(app.log.uncommitted(&app.group()).await, 60, "{harm}: what is not inserted is not committed");
        let said = worker.lines("until this is mended").split_off(before);
        assert_eq!(said.len(), 1, "{harm}: said once, in one line: {said:?}");
        assert!(said[0].contains("telemetry stream-workers prepare") && said[0].contains("\"level\":\"ERROR\""), "{said:?}");

        app.clickhouse.query(mend).execute().await.unwrap();
        app.log.caught_up(&app.group()).await;
        assert_eq!(worker.series("worker_insert_stopped").await, Some(0.0), "{mend}");
    }
    assert_eq!(app.visible().await, ids(60));
    assert_eq!(app.log.set_aside().await, [], "the table was wrong, not the records");
    assert_eq!(worker.process.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_parts_slow_the_worker_down_until_merges_have_caught_up() {
    let app = TestApp::new().await;
    for statement in [
        "SYSTEM STOP MERGES observations",
        "ALTER TABLE observations MODIFY SETTING parts_to_delay_insert = 4, parts_to_throw_insert = 4",
    ] {
        app.clickhouse.query(statement).execute().await.unwrap();
    }
    let mut worker = Watched::start(&app).await;
    // One block after the other, until there is one too many.
    for portion in stream(200).chunks(20) {
        app.put(portion).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    worker.reaches("worker_insert_retries_total{why=\"too_many_parts\"}", 2.0).await;
    assert!(app.log.uncommitted(&app.group()).await > 0, "the worker waits");
    assert_eq!(worker.series("worker_insert_stopped").await, Some(0.0), "this heals by itself");
    app.clickhouse.query("SYSTEM START MERGES observations").execute().await.unwrap();
    eventually("the worker catches up", || async {
        // Of so few and so small parts ClickHouse merges none before they are older.
        app.clickhouse.query("OPTIMIZE TABLE observations FINAL").execute().await.unwrap();
        (app.log.uncommitted(&app.group()).await == 0).then_some(())
    })
    .await;
    assert_eq!(app.visible().await, ids(200));
    assert_eq!(worker.process.terminate().await, Some(0));
}

/// Records of 20 events of 9 KB; a block of all of them takes more memory than ClickHouse is given.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_is_too_large_for_the_memory_goes_in_in_halves_of_whole_records() {
    const RECORDS: u128 = 150;
    const EVENTS: u128 = 20;
    let app = TestApp::new().await;
    let text = "x".repeat(9_000);
    let records: Vec<_> = (0..RECORDS)
        .map(|n| {
            let events: Vec<Value> = (n * EVENTS..(n + 1) * EVENTS)
                .map(|key| {
                    let mut event = event(key);
                    event["data"] = json!({"text": format!("{key}{text}")});
                    event
                })
                .collect();
            (0, record(1, NEW_YEAR_US + i64::try_from(n).unwrap(), &events))
        })
        .collect();
    app.put(&records).await;
    let restricted = Restricted::before(&app, "max_memory_usage=20000000&max_untracked_memory=100000").await;
    // Long enough to have them all in one block.
    let mut worker = Watched::start_with(&app, &restricted.server.url, 4_000).await;
    let watching = async {
        loop {
            let number = "toUInt64(substring(event_id, length('event-') + 1))";
            let by_record = format!("SELECT DISTINCT count() FROM observations FINAL GROUP BY intDiv({number}, {EVENTS})");
            let sizes: Vec<u64> = app.clickhouse.query(&by_record).fetch_all().await.unwrap();
            assert!(sizes.is_empty() || sizes == [20], "a request is visible whole or not at all: {sizes:?}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let group = app.group();
    tokio::select! {
        () = app.log.caught_up(&group) => {}
        () = watching => {}
    }
    assert_eq!(app.visible().await, ids(RECORDS * EVENTS));
    assert!(
        worker.series("worker_insert_retries_total{why=\"memory\"}").await >= Some(3.0),
        "it was too large: {}",
        worker.process.stderr()
    );
    assert_eq!(worker.series("worker_rows_inserted_total").await, Some((RECORDS * EVENTS) as f64));
    assert_eq!(worker.process.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_may_only_be_read_is_waited_for() {
    let app = TestApp::new().await;
    let restricted = Restricted::before(&app, "readonly=0").await;
    let mut worker = Watched::start_with(&app, &restricted.server.url, 100).await;
    app.put(&stream(30)).await;
    app.log.caught_up(&app.group()).await;
    restricted.set("readonly=2");
    app.put(&stream(60)).await;
    worker.reaches("worker_insert_retries_total{why=\"passing\"}", 3.0).await;
    assert_eq!(app.log.uncommitted(&app.group()).await, 60);
    assert_eq!(worker.series("worker_insert_stopped").await, Some(0.0), "that may end by itself");
    restricted.set("readonly=0");
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await, ids(60));
    assert_eq!(app.log.set_aside().await, []);
    assert_eq!(worker.process.terminate().await, Some(0));
}
