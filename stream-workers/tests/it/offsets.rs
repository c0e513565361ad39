//! F28: lost offsets, and a log that drops records before they are read. The other records are read, and the gap is counted.

use crate::metrics::wait_for_lines;
use crate::test_app::{NEW_YEAR_US, RunningWorker, Workers, event, ids, record};
use rdkafka::Offset;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use serde_json::Value;
use service_kit::kafka;
use service_kit::testing::eventually;
use std::time::Duration;
use tokio::task::spawn_blocking;

const PATIENCE: Duration = Duration::from_secs(30);

fn records(partition: i32, events: std::ops::Range<u128>) -> Vec<(i32, Value)> {
    events.map(|n| (partition, record(1, NEW_YEAR_US, &[event(n)]))).collect()
}

/// Offsets in Kafka are only for tools that show lag.
#[tokio::test(flavor = "multi_thread")]
async fn f28_losing_the_groups_offsets_changes_nothing() {
    let app = Workers::start().await;
    app.put(&[records(0, 0..20), records(3, 20..40)].concat()).await;
    app.process_all().await;
    app.log.delete_group(&app.stores.name).await;
    app.put(&records(3, 40..41)).await;
    app.process_all().await;
    assert_eq!(app.visible().await.len(), 41);
    assert_eq!(app.processed().await.records, 41, "no record is read twice");
}

/// Records are dropped while a worker reads, so there is a gap in the middle of a block.
#[tokio::test(flavor = "multi_thread")]
async fn f28_counts_a_gap_within_a_block() {
    let app = Workers::start().await;
    let RunningWorker { process: mut worker, metrics, .. } = app.watched([]).await;
    app.put(&records(2, 0..5)).await;
    app.caught_up().await;
    // Only a transaction leaves a gap in the middle of a log: its end is an offset without a record.
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
    // A commit responds before its marker is in the log.
    let end = async || app.progress().await[&2].1;
    eventually("all markers are in the log", || async { (end().await == 11).then_some(()) }).await;
    app.put(&records(2, 8..9)).await;
    eventually("all records are visible", || async { (app.visible().await.len() == 9).then_some(()) }).await;
    wait_for_lines(&metrics, &["worker_records_missed_total 3"]).await;
    assert_eq!(worker.terminate().await, Some(0));
}

/// Retention drops unread records of a partition that was read before, and of one that was never read.
#[tokio::test(flavor = "multi_thread")]
async fn f28_counts_records_that_retention_dropped_unread() {
    let app = Workers::start().await;
    app.put(&records(0, 0..10)).await;
    app.process_all().await;
    app.put(&[records(0, 10..20), records(5, 20..24)].concat()).await;
    app.log.drop_before([(0, Offset::Offset(15)), (5, Offset::Offset(2))]).await;

    let RunningWorker { process: mut worker, metrics, .. } = app.watched([]).await;
    let left = [ids(0..10), ids(15..20), ids(22..24)].concat();
    eventually("the remaining records are visible", || async { (app.visible().await == left).then_some(()) }).await;
    app.caught_up().await;
    let found = app.progress().await;
    let of = |partition: i32| (found[&partition].0.since, found[&partition].0.next, found[&partition].0.missing());
    assert_eq!((of(0), of(5)), ((0, 20, 5), (0, 4, 2)));
    wait_for_lines(&metrics, &["worker_records_missed_total 7", "worker_missing_records 7"]).await;
    assert_eq!(worker.terminate().await, Some(0));
    assert!(worker.stderr().contains("records expired from the log before they were read"), "{}", worker.stderr());
}
