//! Figures that add up whatever dies: what is on the log up to the committed offsets is inserted, folded or rejected, each
//! event once.
//!
//! `SETTLED_ROUNDS=50` lets workers die as often.

use crate::scrape::says;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, event, record};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use service_kit::testing::{TestProcess, free_address, random_seed, size};
use std::time::Duration;
use stream_workers::partition_stats::{Counts, PartitionStats};
use stream_workers::standing;

/// Where a worker may die, by its own hand; the middle one is where a block is inserted and not committed.
const POINTS: [&str; 3] = ["before_insert", "after_insert_before_commit", "after_commit"];

/// A portion for every partition: a record of two events, one of which repeats the record before; one with no event; and one
/// that nobody can read and that says that it holds three.
fn portion(round: u128) -> Vec<(i32, Value)> {
    let records = |partition: i32| {
        let first = 1_000 * round + 10 * u128::try_from(partition).unwrap();
        let mut newer = record(1, NEW_YEAR_US, &[event(0), event(0), event(0)]);
        newer["v"] = (schemas::log::RECORD_VERSION + 1).into();
        let good = record(1, NEW_YEAR_US, &[event(first), event(first + 1)]);
        let again = record(1, NEW_YEAR_US, &[event(first + 1), event(first + 2)]);
        [good, again, record(1, NEW_YEAR_US, &[]), newer].map(|record| (partition, record))
    };
    (0..PARTITIONS).flat_map(records).collect()
}

/// What must be settled of so many portions; what of it is folded goes by where blocks were cut.
fn adds_up(settled: Counts, portions: u64) -> bool {
    let Counts { records, inserted, folded, rejected_records, rejected } = settled;
    let each = portions * u64::try_from(PARTITIONS).unwrap();
    (records, inserted + folded, rejected_records, rejected) == (4 * each, 4 * each, each, 3 * each) && inserted >= 3 * each
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_worker_dies_of_what_is_on_the_log_is_inserted_folded_or_rejected_once() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let (app, _broker) = TestApp::with_own_broker(folder.path()).await;
    let rounds = size("SETTLED_ROUNDS", 4);
    for round in 0..rounds {
        app.put(&portion(u128::try_from(round).unwrap())).await;
        let mut environment = app.environment(&free_address().to_string(), &free_address().to_string());
        let point = POINTS.get(round % 4);
        environment.extend(point.map(|point| ("FAIL_POINT", format!("{point}:1/1"))));
        let mut worker = TestProcess::service(&[], &environment);
        match point {
            Some(_) => assert_eq!(worker.exit_code().await, None, "seed {seed}: it dies there: {}", worker.stderr()),
            None => {
                tokio::time::sleep(Duration::from_millis(random.random_range(0..2_000))).await;
                worker.kill_9().await;
            }
        }
    }
    let (listen, metrics) = (free_address().to_string(), free_address().to_string());
    let mut last = app.process_at(&listen, &metrics).await;
    app.log.caught_up(&app.group()).await;
    let settled = app.settled().await;
    assert!(adds_up(settled, rounds as u64), "seed {seed}: {settled:?}");
    assert_eq!(app.visible().await.len() as u64, 3 * rounds as u64 * u64::try_from(PARTITIONS).unwrap(), "seed {seed}");

    // The last one shows them as its own, though others have worked off most.
    let expected = [
        format!("worker_settled_records {}", settled.records),
        format!("worker_settled_events{{became=\"inserted\"}} {}", settled.inserted),
        format!("worker_settled_events{{became=\"folded\"}} {}", settled.folded),
        format!("worker_settled_events{{became=\"rejected\"}} {}", settled.rejected),
        "worker_missing_records 0".to_owned(),
    ];
    says(&metrics, &expected).await;
    assert_eq!(last.terminate().await, Some(0));

    let (code, stdout, stderr) = app.command(&["settled"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    let Counts { records, inserted, folded, rejected_records, rejected } = settled;
    let all = format!("all {records} 0 {rejected_records} {inserted} {folded} {rejected}");
    let last: Vec<&str> = stdout.lines().last().into_iter().flat_map(str::split_whitespace).collect();
    assert_eq!(last.join(" "), all, "{stdout}");
    assert_eq!(stdout.lines().count(), 2 + usize::try_from(PARTITIONS).unwrap(), "{stdout}");
}

/// Counting restarts where an offset was set back, has another tool's metadata, or has impossible counts, and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn where_a_group_was_put_by_hand_counting_begins_anew() {
    let app = TestApp::new().await;
    let kafka = &app.stores.kafka;
    let records: Vec<_> = (0..10).flat_map(|n| [0, 1, 2, 3].map(|partition| (partition, n))).collect();
    let records: Vec<_> = records.iter().map(|(partition, n)| (*partition, record(1, NEW_YEAR_US, &[event(*n)]))).collect();
    app.put(&records).await;
    app.work_off(&app.group()).await;
    let before = standing(kafka, &app.group()).await.unwrap();
    for (partition, metadata, offset) in [(0, "", 4), (1, "somebody else's", 10), (2, "settled 0 9 9 9 0 0 0", 10)] {
        app.put_group(partition, offset, metadata).await;
    }
    app.put(&(0..4).map(|partition| (partition, record(1, NEW_YEAR_US, &[event(77)]))).collect::<Vec<_>>()).await;
    app.work_off(&app.group()).await;

    let after = standing(kafka, &app.group()).await.unwrap();
    let at = |partition: i32| after[&partition].0;
    for (partition, since) in [(0, 4), (1, 10), (2, 10), (3, 0)] {
        let PartitionStats { counts, .. } = at(partition);
        assert_eq!((at(partition).since, at(partition).next, counts.records), (since, 11, u64::try_from(11 - since).unwrap()));
        assert_eq!(counts.events(), counts.records, "{counts:?}");
    }
    assert_eq!((before[&3].0.counts.records, before[&3].1), (10, 10));
    assert_eq!(app.visible().await.len(), 11);
}
