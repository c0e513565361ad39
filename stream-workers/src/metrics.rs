//! Every metric of the worker, named, with unit and help.
//!
//! Must not take a label from a record.

use crate::fold::Folded;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::time::Duration;

const RECORDS: &str = "worker_records_total";
const EVENTS: &str = "worker_events_total";
const FOLDED: &str = "worker_events_folded_total";
const INSERTED: &str = "worker_rows_inserted_total";
const REJECTED: &str = "worker_records_rejected_total";
const EVENTS_REJECTED: &str = "worker_events_rejected_total";
const RESOLVED: &str = "worker_click_tokens_resolved_total";
const RESOLVE_RETRIES: &str = "worker_resolve_retries_total";
const RETRIES: &str = "worker_insert_retries_total";
const STOPPED: &str = "worker_insert_stopped";
const COMMIT_FAILURES: &str = "worker_commit_failures_total";
const REBALANCES: &str = "worker_rebalances_total";
const PARTITIONS: &str = "worker_partitions_assigned";
const LAG: &str = "worker_lag_seconds";
const INSERT: &str = "worker_insert_duration_seconds";
const AGE: &str = "worker_event_age_seconds";

/// While no process dies and no partition changes hands, over all gateways and workers of one log:
/// `gateway_events_accepted_total` = `worker_rows_inserted_total` + `worker_events_folded_total` +
/// `worker_events_rejected_total` + `gateway_spill_pending_events` + what is on the log and not worked off. A record that
/// is delivered twice is counted twice on the right.
pub(crate) fn describe() {
    describe_counter!(RECORDS, Unit::Count, "records read from the log");
    describe_counter!(EVENTS, Unit::Count, "events decoded");
    describe_counter!(FOLDED, Unit::Count, "events that repeated another one of their block, and were not inserted");
    describe_counter!(INSERTED, Unit::Count, "events whose insert ClickHouse acknowledged");
    describe_counter!(REJECTED, Unit::Count, "records that became dead letters");
    describe_counter!(EVENTS_REJECTED, Unit::Count, "events of records that became dead letters, where those say how many");
    describe_counter!(RESOLVED, Unit::Count, "events whose click token the gateway could not look up and the worker did");
    describe_counter!(RESOLVE_RETRIES, Unit::Count, "look-ups of click tokens that were tried again, PostgreSQL being away");
    describe_counter!(RETRIES, Unit::Count, "inserts that were tried again, by what ClickHouse lacks");
    describe_gauge!(
        STOPPED,
        Unit::Count,
        "1 while ClickHouse refuses rows until somebody mends the table or the account, else 0"
    );
    describe_counter!(COMMIT_FAILURES, Unit::Count, "offset commits that failed; the next one covers them");
    describe_counter!(REBALANCES, Unit::Count, "times that partitions were given to this worker or taken from it");
    describe_gauge!(PARTITIONS, Unit::Count, "partitions that this worker has");
    describe_gauge!(LAG, Unit::Seconds, "time since the oldest record that was read and is not committed came to the log");
    describe_histogram!(INSERT, Unit::Seconds, "one insert, retries included");
    describe_histogram!(AGE, Unit::Seconds, "from acceptance at the gateway to being readable, of every inserted event");
}

pub(crate) fn decoded(events: usize) {
    counter!(RECORDS).increment(1);
    counter!(EVENTS).increment(events as u64);
}

pub(crate) fn rejected(events: usize) {
    counter!(RECORDS).increment(1);
    counter!(REJECTED).increment(1);
    counter!(EVENTS_REJECTED).increment(events as u64);
}

pub(crate) fn inserted(folded: &Folded, now_us: i64, took: Duration) {
    counter!(INSERTED).increment(folded.rows.len() as u64);
    counter!(FOLDED).increment(folded.repeats.len() as u64);
    histogram!(INSERT).record(took);
    let age = histogram!(AGE);
    for row in &folded.rows {
        let age_us = now_us.saturating_sub(row.received_at_us());
        age.record(Duration::from_micros(u64::try_from(age_us).unwrap_or(0)));
    }
}

pub(crate) fn resolved(events: usize) {
    counter!(RESOLVED).increment(events as u64);
}

pub(crate) fn resolve_retried() {
    counter!(RESOLVE_RETRIES).increment(1);
}

/// `why` is a refusal's name.
pub(crate) fn retried(why: &'static str) {
    counter!(RETRIES, "why" => why).increment(1);
}

pub(crate) fn stopped(is_stopped: bool) {
    gauge!(STOPPED).set(if is_stopped { 1.0 } else { 0.0 });
}

pub(crate) fn commit_failed() {
    counter!(COMMIT_FAILURES).increment(1);
}

pub(crate) fn rebalanced() {
    counter!(REBALANCES).increment(1);
}

pub(crate) fn assigned(partitions: usize) {
    gauge!(PARTITIONS).set(partitions as f64);
}

pub(crate) fn lag(behind: Duration) {
    gauge!(LAG).set(behind);
}
