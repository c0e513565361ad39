//! C1 and C10: the worker or its store crashes at any moment. `C10_SECONDS` sets how long the store is unavailable; C10 requires 600.

use crate::metrics;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, RunningTask, RunningWorker, TestApp, Workers, event, ids, record, stream};
use local::test_servers::ClickHouse;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use service_kit::databases;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{TestStores, eventually, random_seed, size};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

const KILLS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_neither_lose_nor_duplicate_events() {
    let app = Arc::new(Workers::start().await);

    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (written, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let writing = tokio::spawn(write(Arc::clone(&app), Arc::clone(&written), stop.clone()));
    for round in 0..KILLS {
        let mut worker = app.process().await;
        let before = app.visible().await.len();
        eventually("the worker makes progress", || async { (app.visible().await.len() > before).then_some(()) }).await;
        // Kill it at any point between reading and storing the progress.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1_000))).await;
        worker.kill_9().await;
        eprintln!("round {round}: killed with {} of {} visible", app.visible().await.len(), written.load(Ordering::Relaxed));
    }
    stop.cancel();
    writing.await.unwrap();
    let mut last = app.process().await;
    app.caught_up().await;
    let written = written.load(Ordering::Relaxed);
    assert_eq!(app.visible().await, ids(0..written.into()), "seed {seed}");
    assert_eq!(app.processed().await.events(), written, "seed {seed}: events that were inserted twice are counted once");
    assert_eq!(last.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_worker_is_replaced_immediately() {
    let app = Workers::start().await;
    let mut settings = app.settings();
    // A takeover after the silence would time out.
    settings.tuning.takeover_after_ms = 3_600_000;
    for key in 1..=3 {
        app.put(&[(0, record(1, NEW_YEAR_US, &[event(key)]))]).await;
        let worker = RunningTask::start(settings.clone());
        app.caught_up().await;
        worker.stop().await;
        assert_eq!(app.visible().await.len() as u128, key);
    }
}

async fn progresses(app: &TestApp, what: &str) {
    let before = app.visible().await.len();
    eventually(what, || async { (app.visible().await.len() > before).then_some(()) }).await;
}

/// F23: one of three processes is always leaving, by SIGTERM or kill -9, and another one is starting.
#[tokio::test(flavor = "multi_thread")]
async fn restarting_workers_do_not_lose_events() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = Arc::new(Workers::start().await);
    let (written, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let writing = tokio::spawn(write(Arc::clone(&app), Arc::clone(&written), stop.clone()));
    let mut workers = vec![app.process().await, app.process().await];
    for round in 0..size("COME_AND_GO_ROUNDS", 4) {
        workers.push(app.process().await);
        progresses(&app, "events are stored with one more").await;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1_500))).await;
        let mut leaving = workers.swap_remove(random.random_range(0..workers.len()));
        if round % 2 == 0 {
            assert_eq!(leaving.terminate().await, Some(0), "seed {seed}: {}", leaving.stderr());
        } else {
            leaving.kill_9().await;
        }
        progresses(&app, "events are stored with one less").await;
    }
    stop.cancel();
    writing.await.unwrap();
    app.caught_up().await;
    let written = written.load(Ordering::Relaxed);
    assert_eq!(app.visible().await, ids(0..written.into()), "seed {seed}");
    assert_eq!(app.processed().await.events(), written, "seed {seed}: each event is counted once");
    assert_eq!(app.log.dead_letters().await, [], "seed {seed}: no record is blamed for a process that was killed");
}

/// Writes records to all partitions, one after another, until it is stopped.
async fn write(app: Arc<TestApp>, written: Arc<AtomicU64>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let first = written.load(Ordering::Relaxed);
        app.put(&stream(first.into()..(first + 10).into())).await;
        written.fetch_add(10, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns an app whose ClickHouse can be killed and paused.
async fn with_own_clickhouse(folder: &std::path::Path) -> (TestApp, ClickHouse) {
    let at = folder.to_owned();
    let server = spawn_blocking(move || ClickHouse::start(&at)).await.unwrap().unwrap();
    let fresh = TestStores::fresh().await;
    let clickhouse = ClickHouseSettings::at(server.url(), &fresh.name);
    databases::apply_clickhouse_ddl(&clickhouse).await.unwrap();
    (Workers::on(TestStores { clickhouse, ..fresh }), server)
}

#[tokio::test(flavor = "multi_thread")]
async fn store_outage_does_not_lose_events() {
    let folder = tempfile::tempdir().unwrap();
    let (app, mut server) = with_own_clickhouse(folder.path()).await;
    let worker = app.worker();
    app.put(&stream(0..60)).await;
    app.caught_up().await;

    server.kill_9();
    app.put(&stream(60..120)).await;
    worker.assert_running(Duration::from_secs(4), async || {}).await;
    let server = spawn_blocking(move || server.restart().map(|()| server)).await.unwrap().unwrap();
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(0..120));

    server.pause();
    app.put(&stream(120..180)).await;
    worker.assert_running(Duration::from_secs(4), async || {}).await;
    server.resume();
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(0..180));
    worker.stop().await;
}

/// C10, F12: more than two blocks arrive while ClickHouse is unavailable.
#[tokio::test(flavor = "multi_thread")]
async fn worker_continues_after_a_store_outage() {
    const RECORDS: u128 = 110;
    let away_seconds = size("C10_SECONDS", 15);
    let folder = tempfile::tempdir().unwrap();
    let (app, mut server) = with_own_clickhouse(folder.path()).await;
    let RunningWorker { process: mut worker, metrics, .. } = app.watched([]).await;
    let lag = async || metrics::series::<f64>(&metrics, "worker_lag_seconds").await;
    app.put(&stream(0..60)).await;
    app.caught_up().await;

    server.kill_9();
    // A megabyte each: a block has at most 32 MiB, and two may be in memory.
    let large: Vec<_> = (60..60 + RECORDS)
        .map(|n| {
            let mut event = event(n);
            event["data"] = serde_json::json!({"text": "x".repeat(1_000_000)});
            (i32::try_from(n).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event]))
        })
        .collect();
    for portion in large.chunks(20) {
        app.put(portion).await;
    }
    eventually("the lag grows", || async { (lag().await? >= away_seconds as f64).then_some(()) }).await;

    let server = spawn_blocking(move || server.restart().map(|()| server)).await.unwrap().unwrap();
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(0..60 + RECORDS));
    assert_eq!(u128::from(app.processed().await.events()), 60 + RECORDS);
    eventually("the lag is zero", || async { (lag().await? == 0.0).then_some(()) }).await;
    assert_eq!(worker.terminate().await, Some(0), "{}", worker.stderr());
    drop(server);
}
