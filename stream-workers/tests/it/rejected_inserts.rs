//! F14, F15, F16: ClickHouse rejects rows for a while, or until an operator fixes it. No record is skipped or becomes a dead letter, and
//! the worker continues by itself.

use crate::faulty_clickhouse::{Disturbance, proxy};
use crate::metrics;
use crate::test_app::{RunningWorker, Workers, ids, stream};
use service_kit::testing::eventually;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl RunningWorker {
    async fn series(&self, name: &str) -> Option<f64> {
        metrics::series(&self.metrics, name).await
    }

    async fn reaches(&self, name: &str, least: f64) {
        eventually(&format!("{name} reaches {least}"), || async { (self.series(name).await? >= least).then_some(()) }).await;
    }
}

const REPEATED: &str = "worker_statements_repeated_total";

#[tokio::test(flavor = "multi_thread")]
async fn waits_until_a_mismatched_table_is_fixed() {
    let app = Workers::start().await;
    let mut worker = app.watched([]).await;
    app.put(&stream(0..30)).await;
    app.caught_up().await;

    for (stored, (harm, fix)) in (30..).step_by(30).zip([
        (
            "ALTER TABLE reports DROP COLUMN output_id",
            "ALTER TABLE reports ADD COLUMN output_id String CODEC(ZSTD(1)) AFTER turn_id",
        ),
        ("RENAME TABLE events TO elsewhere", "RENAME TABLE elsewhere TO events"),
    ]) {
        app.clickhouse.query(harm).execute().await.unwrap();
        let repeated = worker.series(REPEATED).await.unwrap_or(0.0);
        app.put(&stream(stored..stored + 30)).await;
        worker.reaches(REPEATED, repeated + 3.0).await;
        assert_eq!(app.not_stored().await, 30, "{harm}: a block that can't be inserted isn't skipped");
        app.clickhouse.query(fix).execute().await.unwrap();
        app.caught_up().await;
    }
    assert_eq!(app.visible().await, ids(0..90));
    assert_eq!(app.log.dead_letters().await, [], "the table was wrong, not the records");
    assert_eq!(worker.process.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_while_a_table_has_too_many_parts() {
    let app = Workers::start().await;
    for statement in
        ["SYSTEM STOP MERGES events", "ALTER TABLE events MODIFY SETTING parts_to_delay_insert = 4, parts_to_throw_insert = 4"]
    {
        app.clickhouse.query(statement).execute().await.unwrap();
    }
    let mut worker = app.watched([]).await;
    // Put blocks one by one, until there are too many parts.
    for portion in stream(0..200).chunks(20) {
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
        // ClickHouse doesn't merge such few and small parts until they are older.
        app.clickhouse.query("OPTIMIZE TABLE events FINAL").execute().await.unwrap();
        (app.not_stored().await == 0).then_some(())
    })
    .await;
    assert_eq!(app.visible().await, ids(0..200));
    assert_eq!(worker.process.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_while_the_store_is_read_only() {
    let app = Workers::start().await;
    let is_restricted = Arc::new(AtomicBool::new(false));
    let restricted = Arc::clone(&is_restricted);
    let proxy =
        proxy(&app, move |_, _| if restricted.load(Ordering::Relaxed) { Disturbance::ReadOnly } else { Disturbance::None }).await;
    let mut worker = app.watched([("CLICKHOUSE_URL", proxy.url.clone())]).await;
    app.put(&stream(0..30)).await;
    app.caught_up().await;
    is_restricted.store(true, Ordering::Relaxed);
    app.put(&stream(30..60)).await;
    worker.reaches(REPEATED, 3.0).await;
    assert_eq!(app.not_stored().await, 30);
    is_restricted.store(false, Ordering::Relaxed);
    app.caught_up().await;
    assert_eq!(app.visible().await, ids(0..60));
    assert_eq!(app.log.dead_letters().await, []);
    assert_eq!(worker.process.terminate().await, Some(0));
}
