//! Recovery of a writer after its predecessor, the log or the tables have lost something.

use super::random_records::RandomRecords;
use super::{WriterFixture, model};
use crate::test_app::{NEW_YEAR_US, TestApp, event, record};
use rdkafka::Offset;
use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use service_kit::kafka;
use service_kit::testing::{eventually, random_seed};
use std::time::Duration;

/// Reports that no event refers to, and events that refer to a report without a row.
const ORPHANS: &str = "SELECT count() FROM (SELECT identity, home, organization, toUnixTimestamp64Milli(at) AS at FROM reports FINAL \
    WHERE is_issuers = 0) AS stored FULL JOIN (SELECT if(entry.1 = 0, key, entry.1) AS identity, if(entry.2 = 0, home, entry.2) AS home, \
    entry.3 AS organization, toUnixTimestamp64Milli(entry.4) AS at FROM (SELECT key, home, arrayJoin(arrayZip(reports.identity, \
    reports.home, reports.organization, reports.at)) AS entry FROM events FINAL)) AS named USING (identity, home, organization, at) \
    WHERE stored.identity = 0 OR named.identity = 0 SETTINGS do_not_merge_across_partitions_select_final = 1, join_use_nulls = 0";

impl WriterFixture {
    pub(super) async fn count(&self, sql: &str) -> u64 {
        self.app.clickhouse.query(sql).fetch_one().await.unwrap()
    }

    pub(super) async fn assert_no_orphans(&self) {
        assert_eq!(self.count(ORPHANS).await, 0, "reports without an event, or events without a report");
    }
}

/// `progress` is the first table that a backup copies, so everything after it is read again, in several blocks.
#[tokio::test(flavor = "multi_thread")]
async fn writer_catches_up_after_a_restore() {
    let (mut world, seed) = (WriterFixture::new().await, random_seed());
    let history = RandomRecords { records: 100, events_per_record: 5, padding: 10, ids: 60 };
    world.put(&history.records(seed)).await;
    let mut writer = world.writer();
    world.is_stored().await;
    writer.kill_9().await;
    let statements = [
        "CREATE TABLE backup AS progress",
        "INSERT INTO backup SELECT * FROM progress FINAL",
        "CREATE TABLE writers_backup AS writers",
    ];
    world.run(&statements).await;
    world.run(&["INSERT INTO writers_backup SELECT * FROM writers"]).await;
    world.put(&history.records(seed.wrapping_add(1))).await;
    let mut writer = world.writer();
    world.is_stored().await;
    writer.kill_9().await;
    world.put(&history.records(seed.wrapping_add(2))).await;
    world.dies_at("after_reports").await;
    let restore = ["TRUNCATE TABLE progress", "TRUNCATE TABLE writers", "INSERT INTO progress SELECT * FROM backup"];
    world.run(&restore).await;
    world.run(&["INSERT INTO writers SELECT * FROM writers_backup"]).await;
    // The writer crashes while covering rows that are newer than `progress`.
    world.dies_at("after_reports").await;
    let _writer = world.writer();
    world.is_stored().await;
    world.assert_equals_model().await;
    world.assert_no_orphans().await;
}

/// A writer is careful after several starts without a block. A start that ends gracefully doesn't count.
#[tokio::test(flavor = "multi_thread")]
async fn graceful_stops_do_not_limit_blocks() {
    let mut world = WriterFixture::new().await;
    world.run(&["SYSTEM STOP MERGES progress"]).await;
    let newest = "SELECT max(bitShiftRight(beat, 40)) FROM progress";
    for epoch in 1..=5 {
        let mut writer = world.writer();
        eventually("it is active", || async { (world.count(newest).await == epoch).then_some(()) }).await;
        assert_eq!(writer.terminate().await, Some(0), "{}", writer.stderr());
    }
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let _writer = world.writer();
    world.is_stored().await;
    assert_eq!(world.count("SELECT uniqExact(bitShiftRight(beat, 40)) FROM progress").await, 6, "writers that stored progress");
    assert_eq!(world.count("SELECT count() FROM progress WHERE suspect_partition >= 0").await, 0, "notes of a careful writer");
}

/// A late copy of an old insert would restore a deleted row.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_tables_that_clean_up_deleted_rows() {
    for table in ["events", "reports"] {
        let world = WriterFixture::new().await;
        world.run(&[&format!("ALTER TABLE {table} MODIFY SETTING allow_experimental_replacing_merge_with_cleanup = 1")]).await;
        let mut writer = world.writer();
        assert_eq!(writer.exit_code().await, Some(1), "{}", writer.stderr());
        let fix = format!("ALTER TABLE {table} MODIFY SETTING allow_experimental_replacing_merge_with_cleanup = 0");
        assert!(writer.stderr().contains(&fix), "{}", writer.stderr());
    }
}

/// The log's retention drops records that have rows only in `reports`.
#[tokio::test(flavor = "multi_thread")]
async fn reports_of_dropped_records_are_deleted() {
    let mut world = WriterFixture::new().await;
    world.app.put(&[(0, record(1, NEW_YEAR_US, &[event(1)])), (1, record(1, NEW_YEAR_US, &[event(2)]))]).await;
    world.dies_at("after_reports").await;
    assert!(world.count("SELECT count() FROM reports FINAL").await > 0);
    world.app.log.drop_before([(0, Offset::Offset(1)), (1, Offset::Offset(1))]).await;
    let _writer = world.writer();
    world.put(&[(2, record(1, NEW_YEAR_US, &[event(3)]))]).await;
    eventually("the new record is stored", || async {
        (world.count("SELECT count() FROM events FINAL").await == 1).then_some(())
    })
    .await;
    world.assert_equals_model().await;
    world.assert_no_orphans().await;
}

async fn create_topic_again(app: &TestApp) {
    let (admin, options) = (kafka::admin(&app.stores.kafka).unwrap(), AdminOptions::new());
    let topic = &app.stores.kafka.topic;
    admin.delete_topics(&[topic], &options).await.unwrap();
    let new = NewTopic::new(topic, crate::test_app::PARTITIONS, TopicReplication::Fixed(1));
    eventually("the topic is created again", || async {
        let created = admin.create_topics([&new], &options).await.ok()?;
        created.iter().all(Result::is_ok).then_some(())
    })
    .await;
}

/// The stored offsets are beyond the end of the new topic.
#[tokio::test(flavor = "multi_thread")]
async fn reads_a_recreated_topic_from_its_beginning() {
    let (mut world, seed) = (WriterFixture::new().await, random_seed());
    // So many that every partition's stored offset is beyond its end when the topic has 20 records.
    let history = RandomRecords { records: 240, events_per_record: 2, padding: 10, ids: 30 };
    world.put(&history.records(seed)).await;
    let writer = world.writer();
    world.is_stored().await;
    create_topic_again(&world.app).await;
    let later = RandomRecords { records: 20, ..history }.records(seed.wrapping_add(1));
    world.put(&later).await;
    let expected = model::events(&world.records).len() as u64;
    let stored = eventually("the new records are stored", || async {
        (world.count("SELECT count() FROM events FINAL").await == expected).then_some(())
    });
    let stored = tokio::time::timeout(Duration::from_secs(100), stored).await;
    assert!(stored.is_ok(), "{}", writer.stderr());
    world.assert_equals_model().await;
    world.assert_no_orphans().await;
}

/// An event is deleted together with its reports, whatever their months of acceptance, even if a writer crashes in the meantime. Nothing is
/// stored in a deleted month.
#[tokio::test(flavor = "multi_thread")]
async fn retention_deletes_events_completely() {
    let mut world = WriterFixture::new().await;
    let history = RandomRecords { records: 200, events_per_record: 3, padding: 10, ids: 40 };
    world.put(&history.records(random_seed())).await;
    let mut writer = world.writer();
    world.is_stored().await;
    let divided = "SELECT count() FROM events FINAL WHERE arrayExists(own -> own != 0, reports.home)";
    assert!(world.count(divided).await > 0, "no event has reports of two months");
    writer.kill_9().await;
    world.put(&RandomRecords { ids: 41, ..history }.records(random_seed())).await;
    let keep = ("TELEMETRY_EVENTS_KEEP", super::days_since_mid_january().to_string());
    for point in ["after_divided_reports:1/1", "after_divided_events:1/1", "after_drop:1/1", "after_drop:1/1"] {
        let mut writer = world.writer_with([keep.clone(), ("FAIL_POINT", point.to_owned())]);
        writer.exit_code().await;
        let next = "SELECT toUInt64(arraySum(next)) FROM progress ORDER BY beat DESC LIMIT 1";
        assert_eq!(world.count(next).await, 200, "a block came before the end of a deletion");
    }
    let _writer = world.writer_with([keep]);
    world.is_stored().await;
    let december = "SELECT count() FROM (SELECT home FROM reports UNION ALL SELECT home FROM events) WHERE home < 202601";
    assert_eq!(world.count(december).await, 0);
    assert!(world.count("SELECT count() FROM events FINAL").await > 0);
    world.assert_no_duplicates().await;
    world.assert_no_orphans().await;
}
