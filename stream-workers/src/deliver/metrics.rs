//! The deliverer's metrics. Label values never come from endpoints.

use super::queue_figures::{DroppedFigures, QueueFigures};
use metrics::{counter, gauge, histogram};
use schemas::webhook::delivery_log::AttemptOutcome;
use service_kit::metric_definitions;
use service_kit::metric_definitions::{Metric, MetricLabel};
use std::time::Duration;

const OUTCOME: MetricLabel =
    MetricLabel { label: "outcome", description: "outcome, as in the delivery log", values: &outcomes() };

const fn outcomes() -> [&'static str; AttemptOutcome::ALL.len()] {
    let (mut names, mut next) = ([""; AttemptOutcome::ALL.len()], 0);
    while next < names.len() {
        names[next] = AttemptOutcome::ALL[next].as_str();
        next += 1;
    }
    names
}

metric_definitions! {
    ATTEMPTS = Metric::counter("webhook_attempts_total", "attempts", "Completed delivery attempts").by(&[OUTCOME]);
    DELIVERED = Metric::counter("webhook_deliveries_delivered_total", "deliveries", "Deliveries that a receiver accepted with 2xx");
    DEAD = Metric::counter("webhook_deliveries_dead_total", "deliveries", "Deliveries that failed eight times");
    DROPPED = Metric::counter("webhook_deliveries_dropped_total", "deliveries", "Deliveries that were pending when their endpoint was disabled");
    LOST = Metric::counter("webhook_leases_lost_total", "attempts", "Attempts whose lease expired or was revoked before they ended; they are repeated");
    UNSIGNED = Metric::counter("webhook_unsigned_total", "attempts", "Attempts postponed because TELEMETRY_SECRETS_KEY can't decrypt the secret");
    CLAIMS_FAILED = Metric::counter("webhook_claims_failed_total", "claims", "Failed queries for due deliveries");
    CLAIMS_FAILING = Metric::gauge("webhook_claims_failing", "boolean", "1 if the last query for due deliveries failed, else 0");
    DURATION = Metric::duration("webhook_attempt_duration_seconds", "Duration of an attempt, from the DNS lookup to the response");
    PENDING = Metric::gauge("webhook_deliveries_pending", "deliveries", "Pending deliveries");
    OVERDUE = Metric::gauge("webhook_deliveries_overdue_seconds", "seconds", "Age of the oldest overdue delivery to an endpoint without a running attempt");
    NO_ROOM = Metric::gauge("webhook_deliveries_without_room", "deliveries", "Deliveries dropped in the last hour because their endpoint's queue was full, and not redelivered since");
    NO_ROOM_OF = Metric::gauge("webhook_organizations_without_room", "organizations", "Organizations with such dropped deliveries");
}

pub(super) fn ended(outcome: AttemptOutcome, took: Duration) {
    counter!(ATTEMPTS.name, OUTCOME.label => outcome.as_str()).increment(1);
    histogram!(DURATION.name).record(took);
}

pub(super) fn delivered() {
    counter!(DELIVERED.name).increment(1);
}

pub(super) fn dead() {
    counter!(DEAD.name).increment(1);
}

pub(super) fn dropped(deliveries: u64) {
    counter!(DROPPED.name).increment(deliveries);
}

pub(super) fn lost() {
    counter!(LOST.name).increment(1);
}

pub(super) fn unsigned() {
    counter!(UNSIGNED.name).increment(1);
}

pub(super) fn claimed(has_failed: bool) {
    counter!(CLAIMS_FAILED.name).increment(u64::from(has_failed));
    gauge!(CLAIMS_FAILING.name).set(if has_failed { 1.0 } else { 0.0 });
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53 deliveries")]
pub(super) fn waiting(waiting: &QueueFigures) {
    gauge!(PENDING.name).set(waiting.pending as f64);
    gauge!(OVERDUE.name).set(waiting.overdue_seconds.unwrap_or(0.0).max(0.0));
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53 deliveries")]
pub(super) fn without_room(dropped: &DroppedFigures) {
    gauge!(NO_ROOM.name).set(dropped.deliveries as f64);
    gauge!(NO_ROOM_OF.name).set(dropped.organizations as f64);
}
