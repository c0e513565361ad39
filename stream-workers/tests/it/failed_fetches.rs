//! Log lines of bot requests that returned no content: one row each, in any order and with any repeats.

use crate::test_app::{NEW_YEAR_US, RunningTask, TestApp, Workers, record};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{eventually, random_seed};

/// A month in microseconds.
const MONTH_US: i64 = 31 * 86_400_000_000;

fn line(key: u128, status: u16) -> Value {
    json!({"own_key": format!("{key:032x}"), "at_ms": NEW_YEAR_US / 1_000 + 5, "site": "com.example.shop", "path": format!("/{key}"),
        "bot": "GPTBot", "operator": "OpenAI", "purpose": "training", "verified": false, "status": status})
}

fn failing(received_at_us: i64, lines: &[Value]) -> Value {
    let mut record = record(7, received_at_us, &[]);
    record["kind"] = json!("drain");
    record["failed_fetches"] = json!(lines);
    record
}

/// Returns path and status as a read returns them.
async fn shown(app: &TestApp) -> Vec<String> {
    let rows = "SELECT concat(path, ' ', toString(status)) FROM failed_fetches FINAL ORDER BY path \
        SETTINGS do_not_merge_across_partitions_select_final = 0";
    app.clickhouse.query(rows).fetch_all().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_every_member_of_a_line() {
    let app = Workers::start().await;
    let mut record = failing(NEW_YEAR_US, &[line(1, 304), line(2, 404)]);
    record["drain"] = json!("00000000-0000-0000-0000-000000000009");
    app.put(&[(0, record)]).await;
    app.process_all().await;
    let rows = "SELECT toString(tuple(* EXCEPT identity)) FROM failed_fetches FINAL ORDER BY path";
    let rows: Vec<String> = app.clickhouse.query(rows).fetch_all().await.unwrap();
    let row = |key: u64, status: u16| {
        // 2^64 - 1 - (microseconds * 4096 + place).
        let precedence = u64::MAX - (NEW_YEAR_US.unsigned_abs() * 4_096 + key - 1);
        format!(
            "('com.example.shop','2026-01-01 00:00:00.005',202601,'/{key}','GPTBot','OpenAI','training','no',{status},'none','',\
             '00000000-0000-0000-0000-000000000007','00000000-0000-0000-0000-000000000009',{precedence})"
        )
    };
    assert_eq!(rows, [row(1, 304), row(2, 404)]);
    let sites: Vec<(String, String)> = app.clickhouse.query("SELECT above, site FROM sites FINAL").fetch_all().await.unwrap();
    let host = "com.example.shop".to_owned();
    assert_eq!(sites, [("com.example".to_owned(), host.clone()), (host.clone(), host)], "reads find its host");
    assert_eq!(app.events().await, 0, "a line is not an event");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_accepted_copy_of_a_line_counts() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = Workers::start().await;
    let lines = |status: u16| -> Vec<Value> { (1..=9).map(|key| line(key, status)).collect() };
    // Accepted in December and January; the first has status 404.
    let accepted = [(NEW_YEAR_US - 1, 404), (NEW_YEAR_US, 403), (NEW_YEAR_US + MONTH_US / 2, 304)];
    let mut records: Vec<Value> = accepted
        .iter()
        .flat_map(|(at_us, status)| lines(*status).into_iter().map(|line| failing(*at_us, &[line])).collect::<Vec<_>>())
        .collect();
    for point in ["after_sites", "after_failed_fetches", "after_failed_fetches"] {
        records.shuffle(&mut random);
        let placed: Vec<(i32, Value)> = (0..).map(|n| n % 3).zip(records.clone()).collect();
        app.put(&placed).await;
        app.crash_at(point).await;
    }
    app.process_all().await;
    let expected: Vec<String> = (1..=9).map(|key| format!("/{key} 404")).collect();
    assert_eq!(shown(&app).await, expected, "seed {seed}");
    // Merges keep one copy per month of acceptance.
    app.clickhouse.query("OPTIMIZE TABLE failed_fetches FINAL").execute().await.unwrap();
    assert_eq!(shown(&app).await, expected, "seed {seed}");
    let rows: u64 = app.clickhouse.query("SELECT count() FROM failed_fetches").fetch_one().await.unwrap();
    assert_eq!(rows, 18, "seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_deletes_failed_fetches() {
    let app = Workers::start().await;
    let now_us = Clock::System.now().timestamp_micros();
    app.put(&[(0, failing(NEW_YEAR_US - 60 * MONTH_US, &[line(1, 404), line(2, 404)])), (1, failing(now_us, &[line(2, 403)]))])
        .await;
    app.process_all().await;
    assert_eq!(shown(&app).await, ["/1 404", "/2 404"]);
    let mut settings = app.settings();
    settings.keep.events_keep = Some(365);
    let worker = RunningTask::start(settings);
    let is_deleted = || async { (shown(&app).await == ["/2 403"]).then_some(()) };
    eventually("a line with a later copy stays", is_deleted).await;
    worker.stop().await;
}
