//! Logs with many or new partitions, and blocks with many months.

use super::WriterFixture;
use super::random_records::RandomRecords;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, event, record};
use rdkafka::admin::{AdminOptions, NewPartitions};
use serde_json::{Value, json};
use service_kit::kafka;
use service_kit::testing::{eventually, random_seed, size};
use uuid::Uuid;

const MONTH_US: i64 = 31 * 86_400_000_000;
/// More than ClickHouse accepts in one insert by default.
const MONTHS: i64 = 120;
/// This number of events of this size fills a block of 32 MiB, and one fewer doesn't. Their rows and issuers' rows exceed 64 MiB.
const LARGE_EVENTS: u128 = 5;
const LARGE_EVENT: usize = 7 * 1024 * 1024;
const MANY_PARTITIONS: u64 = 5_000;

#[tokio::test(flavor = "multi_thread")]
async fn reads_partitions_added_at_run_time() {
    let mut world = WriterFixture::new().await;
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let _writer = world.writer();
    world.is_stored().await;
    let (admin, options) = (kafka::admin(&world.app.stores.kafka).unwrap(), AdminOptions::new());
    let more = NewPartitions::new(&world.app.stores.kafka.topic, usize::try_from(PARTITIONS).unwrap() + 2);
    let created = admin.create_partitions(&[more], &options).await.unwrap();
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    eventually("clients know the new partitions", || async {
        let metadata =
            admin.inner().fetch_metadata(Some(&world.app.stores.kafka.topic), std::time::Duration::from_secs(5)).ok()?;
        (metadata.topics()[0].partitions().len() == 8).then_some(())
    })
    .await;
    // Use a new client, because the old one knows only the former partitions.
    world.app.service.log = service_kit::testing::TestLog::connect(&world.app.stores.kafka);
    world.put(&[(PARTITIONS, record(1, NEW_YEAR_US, &[event(2)])), (PARTITIONS + 1, record(1, NEW_YEAR_US, &[event(3)]))]).await;
    world.is_stored().await;
    world.assert_equals_model().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_a_block_with_over_a_hundred_months() {
    let mut world = WriterFixture::new().await;
    let records: Vec<_> = (0..MONTHS)
        .map(|n| {
            let (accepted, mut event) = (NEW_YEAR_US - n * MONTH_US, event(n as u128 + 1));
            event["at_ms"] = (accepted / 1_000).into();
            (0, record(1, accepted, &[event]))
        })
        .collect();
    world.put(&records).await;
    let _writer = world.writer();
    world.is_stored().await;
    world.assert_equals_model().await;
    let homes = "SELECT uniqExact(home) FROM events";
    assert!(world.count(homes).await > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_at_the_progress_of_many_partitions() {
    let mut world = WriterFixture::new().await;
    let zeros = format!("arrayWithConstant({MANY_PARTITIONS}, 0)");
    let progress = format!(
        "INSERT INTO progress (topic, beat, partitions, next, since, records, events, rejected_records, rejected_events, \
         suspect_partition) SELECT '{}', 1, range({MANY_PARTITIONS}), {zeros}, {zeros}, {zeros}, {zeros}, {zeros}, {zeros}, -1",
        world.app.stores.kafka.topic
    );
    world.run(&[&progress]).await;
    let history = RandomRecords { records: 60, events_per_record: 2, padding: 10, ids: 60 };
    let seed = random_seed();
    for round in 0..3 {
        world.put(&history.records(seed.wrapping_add(round))).await;
        let mut writer = world.writer();
        world.is_stored().await;
        match round {
            0 => assert_eq!(writer.terminate().await, Some(0), "{}", writer.stderr()),
            _ => writer.kill_9().await,
        }
    }
    world.assert_equals_model().await;
    let partitions = "SELECT toUInt64(length(partitions)) FROM progress ORDER BY beat DESC LIMIT 1";
    assert_eq!(world.count(partitions).await, MANY_PARTITIONS);
}

/// Returns the records of a block whose rows are too large for one statement, because click token issuers have second rows.
fn large_block(first: u128) -> Vec<(i32, Value)> {
    let large = |n: u128| {
        let mut large = event(n);
        large["session_id"] = json!(Uuid::from_u128(1));
        large["session_org"] = json!(Uuid::from_u128(9));
        large["link"] = json!("same");
        large["data"] = json!({"padding": "x".repeat(LARGE_EVENT)});
        (0, record(1, NEW_YEAR_US, &[large]))
    };
    (first..first + LARGE_EVENTS).map(large).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_divided_blocks_once() {
    // A block ends only when it is full.
    let patient = || ("TELEMETRY_BLOCK_AGE_MS", "60000".to_owned());
    let next = "SELECT toUInt64(arraySum(next)) FROM progress ORDER BY beat DESC LIMIT 1";
    let mut world = WriterFixture::new().await;
    world.put(&large_block(1)).await;
    let mut writer = world.writer_with([patient()]);
    world.is_stored().await;
    writer.kill_9().await;
    assert_eq!(world.count("SELECT uniqExact(version) FROM reports").await, 2, "parts of the block");
    // Crash between the parts, and between the reports and the events of the second part.
    for (n, point) in (1..).zip(["after_progress:1/1", "after_reports:1/2"]) {
        world.put(&large_block(1 + n * LARGE_EVENTS)).await;
        let mut writer = world.writer_with([patient(), ("FAIL_POINT", point.to_owned())]);
        assert_eq!(writer.exit_code().await, None, "{}", writer.stderr());
        let stored = u128::from(world.count(next).await) - n * LARGE_EVENTS;
        assert!((1..LARGE_EVENTS).contains(&stored), "{point}: {stored} records are stored");
        let mut writer = world.writer();
        world.is_stored().await;
        writer.kill_9().await;
    }
    world.assert_equals_model().await;
    world.assert_origins().await;
    world.assert_no_orphans().await;
}

/// A host with 30 parents has 31 rows in `sites`, about 12 KB.
#[tokio::test(flavor = "multi_thread")]
async fn divides_blocks_with_many_new_hosts() {
    const RECORDS: u128 = 13;
    const HOSTS: u128 = 500;
    let above = "abcdefg.".repeat(29);
    let deep = |n: u128| {
        let mut deep = event(n);
        deep["site"] = json!(format!("test.{above}{n:06}"));
        // Their other rows fit into one statement.
        deep["data"] = json!({"padding": "x".repeat(100)});
        deep
    };
    let events = |from: u128| (from..from + HOSTS).map(deep).collect::<Vec<_>>();
    let records: Vec<_> = (0..RECORDS).map(|n| (0, record(1, NEW_YEAR_US, &events(1 + n * HOSTS)))).collect();
    let mut world = WriterFixture::new().await;
    world.put(&records).await;
    let _writer = world.writer_with([("TELEMETRY_BLOCK_AGE_MS", "10000".to_owned())]);
    world.is_stored().await;
    let hosts = u64::try_from(RECORDS * HOSTS).unwrap();
    assert_eq!(world.count("SELECT count() FROM sites WHERE above = site").await, hosts);
    assert_eq!(world.count("SELECT count() FROM sites WHERE above = 'test.abcdefg'").await, hosts);
    let blocks = world.count("SELECT uniqExact(version) FROM events").await;
    assert!(blocks > 1, "{blocks}");
}

/// The index takes about 22 bytes per key. Reading a response as a whole would take 28 more, twice.
#[tokio::test(flavor = "multi_thread")]
async fn reads_the_index_as_a_stream() {
    const BYTES_PER_KEY: u64 = 26;
    const BESIDE: u64 = 24 * 1024 * 1024;
    let keys = size("INDEX_KEYS", 1_000_000) as u64;
    let mut world = WriterFixture::new().await;
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let mut writer = world.writer();
    world.is_stored().await;
    let before = writer.peak_memory_bytes();
    writer.kill_9().await;
    let rows = format!(
        "INSERT INTO events (site, at, key, home, version) SELECT concat('com.example', toString(number % 1000)), \
         toDateTime64('2026-01-01', 3, 'UTC') + number % 2000000, reinterpretAsUInt128(sipHash128(number)), 202601, 1 \
         FROM numbers({keys}) SETTINGS max_insert_threads = 1"
    );
    world.run(&[&rows]).await;
    let writer = world.writer();
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(2)]))]).await;
    world.is_stored().await;
    let after = writer.peak_memory_bytes();
    eprintln!("{} MB without keys, {} MB with {keys}", before >> 20, after >> 20);
    assert!(after < before + keys * BYTES_PER_KEY + BESIDE, "{before} {after}");
}
