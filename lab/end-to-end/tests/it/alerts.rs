//! K5: injects a real fault for every alert in `infra/observability/prometheus/rules.yml` and waits until the alert fires.
//! Prometheus scrapes real processes that use real servers.
//!
//! The rules are those of the repository, except that `for:` is one second (`test_app::quickened`) and Prometheus evaluates every second.
//! Thresholds and windows are unchanged.
//!
//! After the fault is repaired, every alert without a time window must resolve.

mod faults;
mod test_app;

use crate::observability::rules::{alerts_in_the_rules, alerts_of_a_window};
use std::collections::BTreeSet;
use test_app::Deployment;

/// Faults, and the alerts that must fire during each. The order matters: some alerts are still firing during the next fault.
const FAULTS: [(&str, &[&str]); 19] = [
    ("a worker reads the wrong topic", &["EventsNotWorkedOff", "EventsUnaccounted"]),
    ("a record is unreadable", &["RecordsSetAside"]),
    ("a table is missing", &["StatementsRepeated"]),
    ("a statement of the previous worker hangs", &["NoActiveWorker"]),
    ("it ends after half a minute", &["TakeoverSlow"]),
    ("workers crash again and again", &["TakeoversFrequent"]),
    ("ClickHouse hangs", &["ClickHouseUnreachable", "ReadsAtLimit", "HighErrorShare"]),
    ("PostgreSQL hangs", &["PostgresUnreachable", "KeysFromMemory"]),
    (
        "the brokers hang and the spill folder is missing",
        &["KafkaUnreachable", "LogNotAcknowledging", "SpillWriteFailing", "GatewayOverloaded", "IngestSlow"],
    ),
    ("the brokers hang until the spill is full", &["SpillInUse", "SpillNearlyFull", "SpillFull"]),
    ("a byte of the spill flips", &["SpillSetAside"]),
    ("ClickHouse still hangs", &["WorkerLagging"]),
    ("another session locks the webhook queue", &["WebhooksOverdue"]),
    ("a receiver is down for the whole schedule", &["WebhooksDeadLettered"]),
    ("the queues of three organizations are full", &["WebhooksWithoutRoom"]),
    ("the deliverer has a different encryption key", &["WebhooksUnsigned"]),
    ("the database rejects writes", &["WebhooksNotClaimed"]),
    ("the log deletes unread records", &["RecordsMissed"]),
    ("processes are killed", &["ServiceDown", "NoWorker", "NoDeliverer"]),
];

/// Alerts that this test can't trigger. The metric of the first is set ten minutes after a takeover, and then daily; the others need more
/// data.
const WITHOUT_A_FAULT: [&str; 3] = ["DuplicateKeys", "PartsMany", "IndexLarge"];

/// Its gauge covers the last hour, although its expression has no window.
const OF_AN_HOUR: &str = "WebhooksWithoutRoom";

/// Returns the alerts that resolve soon after the fault is repaired. The others fire until their window ends, five minutes to an hour
/// later.
fn resolved_after_repair() -> BTreeSet<String> {
    let windows = alerts_of_a_window();
    alerts_in_the_rules().into_iter().filter(|alert| !windows.contains(alert) && alert != OF_AN_HOUR).collect()
}

#[test]
fn k5_every_alert_is_covered_by_a_fault() {
    let listed: Vec<&str> = FAULTS.iter().flat_map(|(_, alerts)| alerts.iter().copied()).collect();
    let distinct: BTreeSet<String> = listed.iter().map(|alert| (*alert).to_owned()).collect();
    assert_eq!(distinct.len(), listed.len(), "an alert is listed twice");
    let mut expected = alerts_in_the_rules();
    assert!(WITHOUT_A_FAULT.iter().all(|alert| expected.remove(*alert)));
    assert_eq!(distinct, expected, "an alert without a fault, or a fault of a deleted alert");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "cargo verify --full: takes four minutes"]
async fn k5_real_faults_fire_every_alert() {
    let mut stage = Deployment::start_all().await;
    stage.wait_until_no_alert_fires().await;
    for (fault, alerts) in FAULTS {
        let begun = std::time::Instant::now();
        stage.inject(fault).await;
        for alert in alerts {
            stage.wait_until_fires(alert).await;
        }
        stage.repair(fault).await;
        eprintln!("{fault}: {} after {:?}", alerts.join(", "), begun.elapsed());
    }
    let (begun, resolved) = (std::time::Instant::now(), resolved_after_repair());
    assert!(resolved.contains("ServiceDown") && resolved.contains("SpillInUse"), "{resolved:?}");
    stage.wait_until_resolved(&resolved).await;
    eprintln!("all faults are repaired: {resolved:?} resolved after {:?}", begun.elapsed());
    stage.assert_metrics_are_listed().await;
    eprintln!("not awaited, because they cover a time window: {:?} and {OF_AN_HOUR}", alerts_of_a_window());
}
