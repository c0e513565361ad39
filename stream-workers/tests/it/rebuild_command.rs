//! `telemetry stream-workers rebuild` with the real binary: fills an empty database from the log. F27: the beginning of the log is missing.

use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, Workers, event, record};
use rdkafka::Offset;
use serde_json::Value;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::TestStores;

/// Returns records of organizations 1 and 2 alternately, each with a fetch. Every third one repeats its event.
pub(crate) fn stream(records: u128) -> Vec<(i32, Value)> {
    (0..records)
        .map(|n| {
            let events = if n.is_multiple_of(3) { vec![event(n), event(n)] } else { vec![event(n)] };
            let at = NEW_YEAR_US + i64::try_from(n).unwrap();
            (i32::try_from(n).unwrap() % PARTITIONS, record(1 + n % 2, at, &events))
        })
        .collect()
}

pub(crate) async fn worked_off(records: u128) -> TestApp {
    let app = Workers::start().await;
    app.put(&stream(records)).await;
    app.process_all().await;
    app
}

#[tokio::test(flavor = "multi_thread")]
async fn rebuild_produces_the_same_rows() {
    let app = worked_off(200).await;
    let origin = app.log.put(0, b"poison").await;
    let quarantined = app.log.put(0, b"deadly-record:abort").await;
    app.log.put_dead_letter(&origin, "not a record", b"poison").await;
    app.log.put_dead_letter(&quarantined, "quarantined: writers died while they decoded it", b"deadly-record:abort").await;
    let whole = app.table().await;
    let (code, _, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("has 200 events: rebuild into an empty database"), "{stderr}");
    assert_eq!(stderr.trim().lines().count(), 1, "{stderr}");

    let database = format!("{}_rebuilt", app.stores.clickhouse.clickhouse_database);
    let clickhouse = ClickHouseSettings { clickhouse_database: database.clone(), ..app.stores.clickhouse.clone() };
    let rebuilt = Workers::on(TestStores { clickhouse, ..app.stores.clone() });
    let (code, stdout, stderr) = rebuilt.command(&["rebuild"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with(&format!("{database} has 200 events;")), "{stdout}");
    assert_eq!(rebuilt.table().await, whole);
    assert_eq!(rebuilt.processed().await.rejected_records, 2);
    assert_eq!(app.log.dead_letters().await.len(), 2, "dead letters aren't sent again");
    app.clickhouse.query(&format!("DROP DATABASE {database} SYNC")).execute().await.unwrap();
}

/// F27: a rebuild without the log's beginning is not mistaken for a complete one.
#[tokio::test(flavor = "multi_thread")]
async fn rebuild_after_a_gap_requires_confirmation() {
    let app = worked_off(120).await;
    app.log.drop_before([(4, Offset::Offset(3))]).await;
    app.empty().await;
    let (code, _, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("add --accept-gap to rebuild the rest"), "{stderr}");
    let (code, _, stderr) = app.command(&["rebuild", "--accept-gap"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("partition 4 of the log begins at offset 3"), "{stderr}");
    assert_eq!(app.events().await, 117);
    assert_eq!(app.progress().await[&4].0.missing(), 3);
}
