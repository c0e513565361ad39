//! F28: offsets that are gone, and a log that drops what nobody has read: everything there is is read, and what is not is said.
//!
//! Must not skip to the end of a log whatever is lost.

use crate::scrape::says;
use crate::test_app::{NEW_YEAR_US, TestApp, event, record};
use rdkafka::Offset;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use serde_json::Value;
use service_kit::kafka;
use service_kit::testing::{eventually, free_address};
use std::time::Duration;
use stream_workers::standing;
use tokio::task::spawn_blocking;

const PATIENCE: Duration = Duration::from_secs(30);

fn records(partition: i32, events: std::ops::Range<u128>) -> Vec<(i32, Value)> {
    events.map(|n| (partition, record(1, NEW_YEAR_US, &[event(n)]))).collect()
}

/// The offsets of a group are deleted: its next member begins at the beginning, and no figure changes.
#[tokio::test(flavor = "multi_thread")]
async fn f28_a_group_whose_offsets_are_gone_reads_everything_again_and_changes_nothing() {
    let app = TestApp::new().await;
    app.put(&[records(0, 0..20), records(3, 20..40)].concat()).await;
    app.work_off(&app.group()).await;
    let (whole, settled) = (app.table().await, app.settled().await);
    let group = app.group();
    app.log.delete_group(&group).await;
    assert_eq!(app.log.uncommitted(&group).await, 40, "nothing is committed any more");

    app.put(&records(3, 40..41)).await;
    app.work_off(&group).await;
    let after = app.table().await;
    assert_eq!(after.len(), 41);
    assert!(whole.iter().all(|row| after.contains(row)), "every row is as it was");
    assert_eq!(app.settled().await.records, settled.records + 1, "and every record was read");
}

/// Records that go while a worker reads: there is a gap in the middle of what it takes together.
#[tokio::test(flavor = "multi_thread")]
async fn f28_a_gap_that_a_worker_meets_on_its_way_is_said_too() {
    let app = TestApp::new().await;
    let metrics = free_address().to_string();
    let mut worker = app.process_at(&free_address().to_string(), &metrics).await;
    app.put(&records(2, 0..5)).await;
    app.log.caught_up(&app.group()).await;
    // Nothing in the middle of a log goes but with a transaction: its end is an offset without a record.
    let producer: FutureProducer =
        kafka::producer_config(&app.stores.kafka).unwrap().set("transactional.id", &app.stores.name).create().unwrap();
    let topic = app.stores.kafka.topic.clone();
    let put = async |n: u128| {
        let payload = record(1, NEW_YEAR_US, &[event(n)]).to_string();
        let record = FutureRecord::<(), str>::to(&topic).partition(2).payload(&payload);
        producer.send_result(record).unwrap().await.unwrap().unwrap();
    };
    let transactions = producer.clone();
    spawn_blocking(move || transactions.init_transactions(PATIENCE).unwrap()).await.unwrap();
    for n in 5..8 {
        producer.begin_transaction().unwrap();
        put(n).await;
        let transactions = producer.clone();
        spawn_blocking(move || transactions.commit_transaction(PATIENCE).unwrap()).await.unwrap();
    }
    // A commit answers before its marker is in the log.
    let end = async || standing(&app.stores.kafka, &app.group()).await.unwrap()[&2].1;
    eventually("all markers are in the log", || async { (end().await == 11).then_some(()) }).await;
    app.put(&records(2, 8..9)).await;
    eventually("all is visible", || async { (app.visible().await.len() == 9).then_some(()) }).await;
    says(&metrics, &["worker_records_missed_total 3"]).await;
    assert_eq!(worker.terminate().await, Some(0));
}

/// Retention takes records before they are read, of a partition that was read before and of one that never was.
#[tokio::test(flavor = "multi_thread")]
async fn f28_what_the_log_dropped_unread_is_said_and_all_the_rest_is_read() {
    let app = TestApp::new().await;
    app.put(&records(0, 0..10)).await;
    app.work_off(&app.group()).await;
    app.put(&[records(0, 10..20), records(5, 20..24)].concat()).await;
    app.log.drop_before([(0, Offset::Offset(15)), (5, Offset::Offset(2))]).await;

    let metrics = free_address().to_string();
    let mut worker = app.process_at(&free_address().to_string(), &metrics).await;
    let left = [0..10, 15..20, 22..24_u128].into_iter().flatten().map(|n| format!("event-{n:06}")).collect::<Vec<_>>();
    eventually("what is left is visible", || async { (app.visible().await == left).then_some(()) }).await;
    app.log.caught_up(&app.group()).await;
    let found = standing(&app.stores.kafka, &app.group()).await.unwrap();
    let of = |partition: i32| (found[&partition].0.since, found[&partition].0.next, found[&partition].0.missing());
    assert_eq!((of(0), of(5)), ((0, 20, 5), (0, 4, 2)));
    let expected = ["worker_records_missed_total 7", "worker_missing_records 7", "worker_offsets_missing_total 0"];
    says(&metrics, &expected).await;
    assert_eq!(worker.terminate().await, Some(0));
    assert_eq!(worker.stderr().matches("the log has dropped records that nobody had read").count(), 2, "{}", worker.stderr());
}
