//! The writer with a real log and a real ClickHouse: one row per event, whatever is killed, paused or repeated.

mod kafka_contact;
mod writer_metrics;
mod random_records;
mod model;
mod recovery;
mod rejected_blocks;
mod sizes;

use crate::test_app::{NEW_YEAR_US, Setting, TestApp, Workers, record};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use random_records::RandomRecords;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{TestProcess, eventually, random_seed, size};
use std::time::Duration;
use uuid::Uuid;

/// A writer's crash points, see stream-workers/src/writer/store_block.rs.
const CRASH_POINTS: [&str; 6] =
    ["after_sites", "after_reports", "after_events_first", "after_events", "after_failed_fetches", "after_progress"];

/// Every column of the model, with 64-bit integers as strings.
const EVENTS: &str = "REPLACE (toUnixTimestamp64Milli(at) AS at, arrayMap(at -> toUnixTimestamp64Milli(at), reports.at) AS `reports.at`, \
    arrayMap(identity -> if(identity = 0, key, identity), reports.identity) AS `reports.identity`) FROM events FINAL ORDER BY key";
const REPORTS: &str = "REPLACE (toUnixTimestamp64Milli(at) AS at) FROM reports FINAL ORDER BY identity, is_issuers";
const JSON: &str = "SETTINGS do_not_merge_across_partitions_select_final = 1, output_format_json_quote_64bit_integers = 1";
const ORIGINS: &str = "SELECT identity, received, origin_partition, origin_offset FROM reports FINAL \
    SETTINGS do_not_merge_across_partitions_select_final = 1";
const DUPLICATES: &str = "SELECT count() FROM (SELECT key FROM events FINAL GROUP BY key HAVING count() > 1) \
    SETTINGS do_not_merge_across_partitions_select_final = 1";
const NEXT: &str = "SELECT arraySum(next) FROM progress ORDER BY beat DESC LIMIT 1";

/// A test's stores, and the records that were put on the log.
struct WriterFixture {
    app: TestApp,
    records: Vec<(i32, Value)>,
}

impl WriterFixture {
    async fn new() -> Self {
        Self { app: Workers::start().await, records: Vec::new() }
    }

    async fn put(&mut self, records: &[(i32, Value)]) {
        self.app.put(records).await;
        self.records.extend_from_slice(records);
    }

    fn writer(&self) -> TestProcess {
        self.writer_with([])
    }

    fn writer_with(&self, besides: impl IntoIterator<Item = Setting>) -> TestProcess {
        self.app.launch([("TELEMETRY_BLOCK_AGE_MS", "20".to_owned())].into_iter().chain(besides))
    }

    async fn dies_at(&self, point: &str) {
        let mut writer = self.writer_with([("FAIL_POINT", format!("{point}:1/1"))]);
        assert_eq!(writer.exit_code().await, None, "it dies at {point}: {}", writer.stderr());
    }

    async fn is_stored(&self) {
        let expected = self.records.len() as i64;
        eventually("all records are stored", || async {
            let next: Option<i64> = self.app.clickhouse.query(NEXT).fetch_optional().await.unwrap();
            (next == Some(expected)).then_some(())
        })
        .await;
    }

    async fn run(&self, statements: &[&str]) {
        for statement in statements {
            self.app.clickhouse.query(statement).execute().await.unwrap();
        }
    }

    async fn assert_equals_model(&self) {
        let events = self.rows(model::NO_EVENT_COLUMNS, EVENTS).await;
        pretty_assert(&events, &model::events(&self.records), "events");
        let reports = self.rows(model::NO_REPORT_COLUMNS, REPORTS).await;
        pretty_assert(&reports, &model::stored_reports(&self.records), "reports");
    }

    async fn rows(&self, without: &str, from: &str) -> Vec<Value> {
        let sql = format!("SELECT * EXCEPT ({without}) {from} {JSON}");
        let mut rows = self.app.clickhouse.query(&sql).fetch_bytes("JSONEachRow").unwrap();
        let rows = rows.collect().await.unwrap();
        serde_json::Deserializer::from_slice(&rows).into_iter().collect::<Result<_, _>>().unwrap()
    }

    /// Asserts that each row of `reports` refers to a record that contains the report.
    async fn assert_origins(&self) {
        let origins = model::origins(&self.records);
        let stored: Vec<(u128, u64, i32, i64)> = self.app.clickhouse.query(ORIGINS).fetch_all().await.unwrap();
        let wrong = stored.iter().find(|origin| !origins.contains(origin));
        assert_eq!(wrong, None);
    }

    async fn assert_no_duplicates(&self) {
        let duplicates: u64 = self.app.clickhouse.query(DUPLICATES).fetch_one().await.unwrap();
        assert_eq!(duplicates, 0, "keys with two live rows");
    }
}

/// Shows only the first difference, because there may be thousands.
fn pretty_assert<T: PartialEq + std::fmt::Debug>(found: &[T], expected: &[T], what: &str) {
    let different = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert!(different.is_none(), "{what}: found and expected: {different:#?}");
    assert_eq!(found.len(), expected.len(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_random_history_equal_the_model() {
    let mut world = WriterFixture::new().await;
    let history = RandomRecords { records: 300, events_per_record: 5, padding: 10, ids: 60 };
    world.put(&history.records(random_seed())).await;
    let mut writer = world.writer();
    world.is_stored().await;
    world.assert_equals_model().await;
    world.assert_origins().await;
    assert_eq!(writer.terminate().await, Some(0), "{}", writer.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn f9_killed_writers_do_not_lose_events() {
    let seed = random_seed();
    let mut world = WriterFixture::new().await;
    let history = RandomRecords { records: 40, events_per_record: 5, padding: 10, ids: 40 };
    for (n, point) in CRASH_POINTS.iter().enumerate() {
        world.put(&history.records(seed.wrapping_add(n as u64))).await;
        world.dies_at(point).await;
        world.assert_no_duplicates().await;
    }
    let _writer = world.writer();
    world.is_stored().await;
    world.assert_equals_model().await;
}

/// Number of schedules per set of tables. Comparing more would be slow.
const SCHEDULES_PER_WORLD: usize = 10;

/// Each schedule pauses a writer while it inserts blocks of more than 1 MiB, lets its standby take over, and resumes it.
#[tokio::test(flavor = "multi_thread")]
async fn paused_writers_write_nothing_after_a_takeover() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut left = size("WRITER_SCHEDULES", 3);
    while left > 0 {
        let schedules = left.min(SCHEDULES_PER_WORLD);
        pause_and_resume(schedules, &mut random).await;
        left -= schedules;
    }
}

async fn pause_and_resume(schedules: usize, random: &mut StdRng) {
    let mut world = WriterFixture::new().await;
    let history = RandomRecords { records: 120, events_per_record: 20, padding: 1_800, ids: 3_000 };
    let mut writer = world.writer();
    world.put(&history.records(random.random())).await;
    world.is_stored().await;
    for schedule in 0..schedules {
        world.put(&history.records(random.random())).await;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..400))).await;
        writer.pause();
        let standby = world.writer();
        world.is_stored().await;
        world.assert_equals_model().await;
        let mut fenced = std::mem::replace(&mut writer, standby);
        fenced.resume();
        eventually("the former writer notices", || async { fenced.stderr().contains("another writer took over").then_some(()) })
            .await;
        assert!(!fenced.has_ended(), "schedule {schedule}: {}", fenced.stderr());
        world.assert_equals_model().await;
    }
}

/// A copy that was accepted earlier, without the click token, replaces a report that has joined an event.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_issuer_rows_of_replaced_reports() {
    let mut world = WriterFixture::new().await;
    let bound = |received_at_us: i64, binding: Value| {
        let mut event = json!({"own_key": format!("{:032x}", 1), "correlation_key": format!("{:032x}", 2), "at_ms": NEW_YEAR_US / 1_000,
            "type": "content_retrieved", "site": "com.example"});
        event.as_object_mut().unwrap().extend(binding.as_object().unwrap().clone());
        (0, record(1, received_at_us, &[event]))
    };
    let token = json!({"session_id": Uuid::from_u128(3), "session_org": Uuid::from_u128(4), "link": "same"});
    let _writer = world.writer();
    let issuers_rows = async |world: &WriterFixture| -> u64 {
        let count = "SELECT count() FROM reports FINAL WHERE is_issuers = 1";
        world.app.clickhouse.query(count).fetch_one().await.unwrap()
    };
    world.put(&[bound(NEW_YEAR_US + 1, token)]).await;
    world.is_stored().await;
    assert_eq!(issuers_rows(&world).await, 1);
    world.put(&[bound(NEW_YEAR_US, json!({}))]).await;
    world.is_stored().await;
    assert_eq!(issuers_rows(&world).await, 0);
    world.assert_equals_model().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_record_that_crashes_writers() {
    let mut world = WriterFixture::new().await;
    let history = RandomRecords { records: 20, events_per_record: 2, padding: 10, ids: 20 };
    let good = history.records(random_seed());
    world.put(&good[..10]).await;
    world.app.log.put_all([(0, &b"deadly-record:abort"[..])]).await;
    world.put(&good[10..]).await;
    // Each writer crashes, and each start brings the record closer to its rejection.
    for starts in 1.. {
        assert!(starts <= 12, "the record is never set aside");
        let mut writer = world.writer();
        let died = tokio::time::timeout(Duration::from_secs(20), writer.exit_code()).await;
        if died.is_err() {
            break;
        }
    }
    let stored: i64 = world.app.clickhouse.query(NEXT).fetch_one().await.unwrap();
    assert_eq!(stored, good.len() as i64 + 1);
    world.assert_equals_model().await;
    let set_aside = world.app.log.dead_letters().await;
    assert_eq!(set_aside.len(), 1);
    assert!(set_aside[0].reason.starts_with("quarantined"), "{}", set_aside[0].reason);
    assert_eq!(set_aside[0].payload, b"deadly-record:abort");
}

/// Returns the days since the middle of January, between the ends of December and January.
fn days_since_mid_january() -> i64 {
    let middle = chrono::DateTime::parse_from_rfc3339("2026-01-15T00:00:00Z").unwrap();
    (Clock::System.now() - middle.to_utc()).num_days()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_a_recreated_log_from_its_beginning() {
    let mut world = WriterFixture::new().await;
    // The state that a writer left for a longer log.
    let progress = "INSERT INTO progress (topic, beat, partitions, next, since, records, events, rejected_records, rejected_events, \
        suspect_partition) VALUES (?, 1, [0, 1], [1000, 0], [0, 0], [1000, 0], [1000, 0], [0, 0], [0, 0], -1)";
    world.app.clickhouse.query(progress).bind(&world.app.stores.kafka.topic).execute().await.unwrap();
    let history = RandomRecords { records: 30, events_per_record: 2, padding: 10, ids: 30 };
    world.put(&history.records(random_seed())).await;
    let _writer = world.writer();
    world.is_stored().await;
    world.assert_equals_model().await;
}
