//! The counts are correct whatever process crashes: each event up to the stored offsets is stored or rejected once.
//!
//! `PROCESSED_ROUNDS` sets the number of crashing workers; the full test has 50.

use crate::metrics::wait_for_lines;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, RunningWorker, Workers, event, record};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use service_kit::testing::{random_seed, size};
use std::time::Duration;
use stream_workers::partition_stats::Counts;

/// Points at which a worker crashes. At the last one, a block is visible but the progress isn't stored.
const POINTS: [&str; 3] = ["after_reports", "after_events", "after_progress"];

/// Returns four records for every partition: two with two events each, one of which is a repeat; one without events; and an unreadable one
/// with three events.
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

fn counts(portions: u64) -> Counts {
    let each = portions * u64::try_from(PARTITIONS).unwrap();
    Counts { records: 4 * each, stored: 4 * each, rejected_records: each, rejected: 3 * each }
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_or_rejects_every_event_once() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = Workers::start().await;
    let rounds = size("PROCESSED_ROUNDS", 4);
    for round in 0..rounds {
        app.put(&portion(u128::try_from(round).unwrap())).await;
        if let Some(point) = POINTS.get(round % 4) {
            app.crash_at(point).await;
        } else {
            let mut worker = app.launch([]);
            tokio::time::sleep(Duration::from_millis(random.random_range(0..2_000))).await;
            worker.kill_9().await;
        }
    }
    let RunningWorker { process: mut last, metrics, .. } = app.watched([]).await;
    app.caught_up().await;
    let processed = app.processed().await;
    assert_eq!(processed, counts(rounds as u64), "seed {seed}");
    assert_eq!(app.events().await, 3 * rounds as u64 * u64::try_from(PARTITIONS).unwrap(), "seed {seed}");

    // The last worker shows all of them, although others have stored most of them.
    let expected = [
        format!("worker_processed_records {}", processed.records),
        format!("worker_processed_events{{outcome=\"stored\"}} {}", processed.stored),
        format!("worker_processed_events{{outcome=\"rejected\"}} {}", processed.rejected),
        "worker_missing_records 0".to_owned(),
    ];
    wait_for_lines(&metrics, &expected).await;
    assert_eq!(last.terminate().await, Some(0));

    let (code, stdout, stderr) = app.command(&["processed"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    let Counts { records, stored, rejected_records, rejected } = processed;
    let all = format!("all {records} 0 {rejected_records} {stored} {rejected}");
    let last: Vec<&str> = stdout.lines().last().into_iter().flat_map(str::split_whitespace).collect();
    assert_eq!(last.join(" "), all, "{stdout}");
    assert_eq!(stdout.lines().count(), 2 + usize::try_from(PARTITIONS).unwrap(), "{stdout}");
}
