//! Every metric of the deliverer, named, with unit and help.
//!
//! Must not take a label from an endpoint: outcomes are a closed set.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use schemas::webhook::progress::AttemptOutcome;
use std::time::Duration;

const ATTEMPTS: &str = "webhook_attempts_total";
const DELIVERED: &str = "webhook_deliveries_delivered_total";
const DEAD: &str = "webhook_deliveries_dead_total";
const DROPPED: &str = "webhook_deliveries_dropped_total";
const LOST: &str = "webhook_leases_lost_total";
const UNSIGNED: &str = "webhook_unsigned_total";
const UNDER_WAY: &str = "webhook_attempts_under_way";
const DURATION: &str = "webhook_attempt_duration_seconds";
const PENDING: &str = "webhook_deliveries_pending";
const OVERDUE: &str = "webhook_deliveries_overdue_seconds";

pub(super) fn describe() {
    describe_counter!(ATTEMPTS, Unit::Count, "attempts that have ended, by outcome");
    describe_counter!(DELIVERED, Unit::Count, "deliveries that a receiver answered with 2xx");
    describe_counter!(DEAD, Unit::Count, "deliveries that failed eight times");
    describe_counter!(DROPPED, Unit::Count, "deliveries that were pending when their endpoint was disabled");
    describe_counter!(
        LOST,
        Unit::Count,
        "attempts that ended after their lease had run out or was taken back; they are repeated"
    );
    describe_counter!(UNSIGNED, Unit::Count, "attempts put off because TELEMETRY_SECRETS_KEY does not open the secret");
    describe_gauge!(UNDER_WAY, Unit::Count, "attempts under way");
    describe_histogram!(DURATION, Unit::Seconds, "one attempt, from the look-up of the name to the answer");
    describe_gauge!(PENDING, Unit::Count, "deliveries to be tried, or tried again");
    describe_gauge!(
        OVERDUE,
        Unit::Seconds,
        "for how long the oldest due delivery has been due; one that is being attempted is not due"
    );
}

pub(super) fn ended(outcome: AttemptOutcome, took: Duration) {
    counter!(ATTEMPTS, "outcome" => outcome.as_str()).increment(1);
    histogram!(DURATION).record(took);
}

pub(super) fn delivered() {
    counter!(DELIVERED).increment(1);
}

pub(super) fn dead() {
    counter!(DEAD).increment(1);
}

pub(super) fn dropped(deliveries: u64) {
    counter!(DROPPED).increment(deliveries);
}

pub(super) fn lost() {
    counter!(LOST).increment(1);
}

pub(super) fn unsigned() {
    counter!(UNSIGNED).increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double, and there are thousands at most")]
pub(super) fn under_way(attempts: usize) {
    gauge!(UNDER_WAY).set(attempts as f64);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double; nobody has more than 2^53 deliveries")]
pub(super) fn waiting(pending: i64, overdue_seconds: f64) {
    gauge!(PENDING).set(pending as f64);
    gauge!(OVERDUE).set(overdue_seconds);
}
