//! Blocks rejected by ClickHouse or the writer, lost responses, and statements that arrive late.

use super::random_records::RandomRecords;
use super::{WriterFixture, model};
use crate::faulty_clickhouse::{Disturbance, contains, proxy};
use crate::test_app::{NEW_YEAR_US, event, record};
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use service_kit::testing::{clickhouse_request, eventually, random_seed};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use uuid::Uuid;

fn named(key: u128, url: &str) -> Value {
    let mut event = event(key);
    event["content_url"] = json!(url);
    event
}

/// Returns forty records, and one whose second event and failed fetch have this URL. Its first event shares a key with the record at
/// `relative`.
fn with_a_bad_record(bad: usize, relative: usize, url: &str) -> Vec<(i32, Value)> {
    let record = |n: i64, events: &[Value]| (0, record(1, NEW_YEAR_US + n, events));
    let related = |key: u128, shared: u128| {
        let mut event = event(key);
        event["correlation_key"] = json!(format!("{shared:032x}"));
        event
    };
    let mut records: Vec<(i32, Value)> = (0..40).map(|n| record(n, &[event(n as u128 + 1)])).collect();
    records.insert(bad, record(100, &[related(100, 7), named(101, url)]));
    records[relative] = record(relative as i64, &[related(200, 7)]);
    // The event has its second record's time, so without that record it would be in another place.
    records[5] = record(50, &[related(300, 8)]);
    records[5].1["events"][0]["at_ms"] = (NEW_YEAR_US / 1_000 - 5).into();
    records[12] = record(12, &[related(400, 8)]);
    records[12].1["org"] = json!(Uuid::from_u128(2));
    for (n, path) in [(20, "/good"), (bad, url)] {
        let fetch = json!({"own_key": format!("{:032x}", 500 + n), "at_ms": NEW_YEAR_US / 1_000, "site": "com.example", "path": path,
            "bot": "GPTBot", "operator": "OpenAI", "purpose": "training", "verified": false, "status": 404});
        records[n].1["failed_fetches"] = json!([fetch]);
    }
    records
}

/// Asserts that one record is rejected. The writer claims a second epoch for that, but no third one.
async fn assert_one_is_set_aside(world: &mut WriterFixture, (bad, relative): (usize, usize), url: &str, reason: &str) {
    let records = with_a_bad_record(bad, relative, url);
    world.put(&records).await;
    // All records are in one block.
    let writer = world.writer_with([("TELEMETRY_BLOCK_AGE_MS", "500".to_owned())]);
    world.is_stored().await;
    let (_, bad) = world.records.remove(bad);
    world.assert_equals_model().await;
    world.assert_no_orphans().await;
    let set_aside = world.app.log.dead_letters().await;
    assert_eq!(set_aside.len(), 1, "{set_aside:?}");
    assert!(set_aside[0].reason.contains(reason), "{}", set_aside[0].reason);
    assert_eq!(serde_json::from_slice::<Value>(&set_aside[0].payload).unwrap(), bad);
    assert_eq!(world.count("SELECT max(epoch) FROM writers").await, 2, "{}", writer.stderr());
    assert_eq!(world.count("SELECT count() FROM failed_fetches FINAL WHERE path = '/good'").await, 1);
    assert_eq!(world.count("SELECT count() FROM failed_fetches FINAL").await, 1);
}

/// Position of the bad record, and of one before or after it that shares a key, so both must be in one block again.
const PLACES: [(usize, usize); 2] = [(17, 3), (3, 17)];

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_record_that_clickhouse_rejects() {
    for table in ["reports", "events"] {
        for place in PLACES {
            let mut world = WriterFixture::new().await;
            let constraint = format!("ALTER TABLE {table} ADD CONSTRAINT no_bad_url CHECK position(url, 'bad-url') = 0");
            world.run(&[&constraint]).await;
            assert_one_is_set_aside(&mut world, place, "https://example.com/bad-url", "VIOLATED_CONSTRAINT").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_record_that_makes_the_merge_panic() {
    for place in PLACES {
        let mut world = WriterFixture::new().await;
        assert_one_is_set_aside(&mut world, place, "https://example.com/deadly-report:panic", "panicked").await;
    }
}

/// Other statements use the server's memory, so smaller blocks wouldn't help.
#[tokio::test(flavor = "multi_thread")]
async fn waits_until_the_server_has_memory() {
    static INSERTS: AtomicUsize = AtomicUsize::new(0);
    let mut world = WriterFixture::new().await;
    let proxy = proxy(&world.app, |_, statement| {
        let is_first = contains(statement, "INSERT INTO events\n") && INSERTS.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first { Disturbance::NoMemory } else { Disturbance::None }
    })
    .await;
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let writer = world.writer_with([("CLICKHOUSE_URL", proxy.url.clone())]);
    world.is_stored().await;
    // Under load, the server may reject more inserts.
    assert!(INSERTS.load(Ordering::Relaxed) >= 2, "the insert into events is repeated: {}", writer.stderr());
    assert_eq!(world.count("SELECT max(epoch) FROM writers").await, 1, "{}", writer.stderr());
    world.assert_equals_model().await;
}

/// There are more divided events than one statement deletes.
#[tokio::test(flavor = "multi_thread")]
async fn deletion_reads_surviving_reports_once() {
    static READS: AtomicUsize = AtomicUsize::new(0);
    let mut world = WriterFixture::new().await;
    let proxy = proxy(&world.app, |_, statement| {
        READS.fetch_add(usize::from(contains(statement, "-- Reports of divided events")), Ordering::Relaxed);
        Disturbance::None
    })
    .await;
    let divided = "INSERT INTO events (key, home, version, `reports.organization`, `reports.platform`, `reports.role`, `reports.drain`, \
        `reports.agent`, `reports.session`, `reports.at`, `reports.received`, `reports.identity`, `reports.home`, `reports.details`) \
        SELECT number, 202601, 1, [toUUID('00000000-0000-0000-0000-000000000001')], [toUUID('00000000-0000-0000-0000-000000000001')], \
        [0], [toUUID('00000000-0000-0000-0000-000000000000')], [''], [0], [toDateTime64(0, 3, 'UTC')], [0], [0], [202512], [''] \
        FROM numbers(20001)";
    world.run(&[divided, "INSERT INTO events (key, home, version) SELECT 20001, 202512, 1"]).await;
    let keep = ("TELEMETRY_EVENTS_KEEP", super::days_since_mid_january().to_string());
    let _writer = world.writer_with([("CLICKHOUSE_URL", proxy.url.clone()), keep]);
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    world.is_stored().await;
    assert_eq!(world.count("SELECT count() FROM events FINAL").await, 1, "the new event");
    assert_eq!(READS.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_responses_do_not_change_rows() {
    let mut world = WriterFixture::new().await;
    let proxy = proxy(&world.app, |_, statement| {
        let lost = [Disturbance::Lost, Disturbance::LostAndRepeated, Disturbance::None, Disturbance::None, Disturbance::None];
        if contains(statement, "INSERT INTO ") { *lost.choose(&mut rand::rng()).unwrap() } else { Disturbance::None }
    })
    .await;
    let history = RandomRecords { records: 60, events_per_record: 5, padding: 10, ids: 40 };
    world.put(&history.records(random_seed())).await;
    let writer = world.writer_with([("CLICKHOUSE_URL", proxy.url.clone())]);
    let stored = tokio::time::timeout(Duration::from_secs(100), world.is_stored()).await;
    assert!(stored.is_ok(), "{}", writer.stderr());
    world.assert_equals_model().await;
    assert!(!model::events(&world.records).is_empty());
}

/// Each insert of a block takes longer than the silence after which a standby takes over.
#[tokio::test(flavor = "multi_thread")]
async fn long_blocks_do_not_end_an_epoch() {
    let mut world = WriterFixture::new().await;
    let proxy = proxy(&world.app, |_, statement| match contains(statement, "INSERT INTO reports\n") {
        true => Disturbance::Delay(Duration::from_secs(10)),
        false => Disturbance::None,
    })
    .await;
    let settings = || [("CLICKHOUSE_URL", proxy.url.clone()), ("TELEMETRY_TAKEOVER_AFTER_MS", "4000".to_owned())];
    let (writer, standby) = (world.writer_with(settings()), world.writer_with(settings()));
    let epochs = async |world: &WriterFixture| world.count("SELECT max(epoch) FROM writers").await;
    eventually("a writer is active", || async { (world.count("SELECT count() FROM progress").await > 0).then_some(()) }).await;
    let before = epochs(&world).await;
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    world.is_stored().await;
    assert_eq!(epochs(&world).await, before, "a standby took over: {} {}", writer.stderr(), standby.stderr());
}

/// The statement arrives after another writer has stored the same records.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_replaced_writers_events() {
    let mut world = WriterFixture::new().await;
    let (hold, mut held) = mpsc::unbounded_channel();
    let proxy = proxy(&world.app, move |url, statement| {
        if !contains(statement, "INSERT INTO events\n") {
            return Disturbance::None;
        }
        hold.send((url.to_owned(), statement.clone())).unwrap();
        Disturbance::Held
    })
    .await;
    let mut replaced = world.writer_with([("CLICKHOUSE_URL", proxy.url.clone())]);
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let (url, statement) = held.recv().await.unwrap();
    replaced.kill_9().await;
    let _writer = world.writer();
    world.is_stored().await;
    let response = clickhouse_request(reqwest::Method::POST, &url).body(statement).send().await.unwrap();
    assert!(response.text().await.unwrap().contains("fenced"), "a replaced writer has inserted into events");
    world.assert_equals_model().await;
}
