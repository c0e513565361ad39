//! K5: every alert of `infra/observability/prometheus/rules.yml` fires, by a real fault, in a real Prometheus that scrapes
//! real processes on real servers.
//!
//! The rules are the ones in the repository but for one thing: `for:` is a second instead of minutes (`stage::quickened`),
//! and Prometheus looks every second. Thresholds and windows are as they are.
//!
//! When everything is mended, what does not count over a window is no longer firing: an alert that stays on is soon overlooked.

mod faults;
mod stage;

use crate::observability::rules::{alerts_in_the_rules, alerts_of_a_window};
use stage::TestApp;
use std::collections::BTreeSet;

/// What goes wrong, and the alerts that must say so while it is wrong. In this order: some go on while the next begin.
const FAULTS: [(&str, &[&str]); 19] = [
    ("a worker reads another topic", &["EventsNotWorkedOff", "EventsUnaccounted"]),
    ("a record cannot be read", &["RecordsSetAside"]),
    ("a table is gone", &["StatementsRepeated"]),
    ("a statement of the former worker hangs", &["NoActiveWorker"]),
    ("it ends after half a minute", &["TakeoverSlow"]),
    ("workers crash again and again", &["TakeoversFrequent"]),
    ("ClickHouse hangs", &["ClickHouseUnreachable", "ReadsAtLimit", "HighErrorShare"]),
    ("PostgreSQL hangs", &["PostgresUnreachable", "KeysFromMemory"]),
    (
        "the brokers hang and the folder of the spill is gone",
        &["KafkaUnreachable", "LogNotAcknowledging", "SpillWriteFailing", "GatewayOverloaded", "IngestSlow"],
    ),
    ("the brokers hang until the spill is full", &["SpillInUse", "SpillNearlyFull", "SpillFull"]),
    ("a byte of the spill flips", &["SpillSetAside"]),
    ("ClickHouse still hangs", &["WorkerLagging"]),
    ("somebody holds a lock on the queue of webhooks", &["WebhooksOverdue"]),
    ("a receiver is away for the whole schedule", &["WebhooksDeadLettered"]),
    ("the endpoints of three organisations are full", &["WebhooksWithoutRoom"]),
    ("the key of the deliverer is not the one that sealed", &["WebhooksUnsigned"]),
    ("the database takes no writes", &["WebhooksNotClaimed"]),
    ("the log drops what nobody has read", &["RecordsMissed"]),
    ("processes are killed", &["ServiceDown", "NoWorker", "NoDeliverer"]),
];

/// The first one's metric is set ten minutes after a takeover, and then daily. The others need more data than a test has.
const WITHOUT_A_FAULT: [&str; 3] = ["DuplicateKeys", "PartsMany", "IndexLarge"];

/// Its gauge is of the last hour, whatever its expression looks like.
const OF_AN_HOUR: &str = "WebhooksWithoutRoom";

/// Alerts that are over soon after what they tell of is mended. The others go on for their window, five minutes to an hour.
fn resolved_when_mended() -> BTreeSet<String> {
    let windows = alerts_of_a_window();
    alerts_in_the_rules().into_iter().filter(|alert| !windows.contains(alert) && alert != OF_AN_HOUR).collect()
}

#[test]
fn k5_every_alert_has_a_fault_that_makes_it_fire() {
    let listed: Vec<&str> = FAULTS.iter().flat_map(|(_, alerts)| alerts.iter().copied()).collect();
    let distinct: BTreeSet<String> = listed.iter().map(|alert| (*alert).to_owned()).collect();
    assert_eq!(distinct.len(), listed.len(), "an alert is listed twice");
    let mut expected = alerts_in_the_rules();
    assert!(WITHOUT_A_FAULT.iter().all(|alert| expected.remove(*alert)));
    assert_eq!(distinct, expected, "an alert without a fault, or a fault of an alert that is no more");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "cargo verify --full: takes four minutes"]
async fn k5_every_alert_fires_by_a_real_fault() {
    let mut stage = TestApp::set().await;
    stage.is_quiet().await;
    for (fault, alerts) in FAULTS {
        let begun = std::time::Instant::now();
        stage.commit(fault).await;
        for alert in alerts {
            stage.fires(alert).await;
        }
        stage.repair(fault).await;
        eprintln!("{fault}: {} after {:?}", alerts.join(", "), begun.elapsed());
    }
    let (begun, resolved) = (std::time::Instant::now(), resolved_when_mended());
    assert!(resolved.contains("ServiceDown") && resolved.contains("SpillInUse"), "{resolved:?}");
    stage.no_longer_fires(&resolved).await;
    eprintln!("everything is mended: {resolved:?} no longer fire after {:?}", begun.elapsed());
    stage.measures_what_is_listed().await;
    eprintln!("left out, because they count over a window: {:?} and {OF_AN_HOUR}", alerts_of_a_window());
}
