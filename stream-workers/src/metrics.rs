//! Every metric of the worker, named, with unit and help.
//!
//! Must not take a label from a record.

use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use std::time::Duration;

const RECORDS: &str = "worker_records_total";
const EVENTS: &str = "worker_events_total";
const FOLDED: &str = "worker_events_folded_total";
const INSERTED: &str = "worker_rows_inserted_total";
const REJECTED: &str = "worker_records_rejected_total";
const RESOLVED: &str = "worker_click_tokens_resolved_total";
const RESOLVE_RETRIES: &str = "worker_resolve_retries_total";
const RETRIES: &str = "worker_insert_retries_total";
const COMMIT_FAILURES: &str = "worker_commit_failures_total";
const INSERT: &str = "worker_insert_duration_seconds";
const AGE: &str = "worker_event_age_seconds";

pub(crate) fn describe() {
    describe_counter!(RECORDS, Unit::Count, "records read from the log");
    describe_counter!(EVENTS, Unit::Count, "events decoded");
    describe_counter!(FOLDED, Unit::Count, "events that repeated another one of their block");
    describe_counter!(INSERTED, Unit::Count, "rows whose insert ClickHouse acknowledged");
    describe_counter!(REJECTED, Unit::Count, "records that became dead letters");
    describe_counter!(RESOLVED, Unit::Count, "events whose click token the gateway could not look up and the worker did");
    describe_counter!(RESOLVE_RETRIES, Unit::Count, "look-ups of click tokens that were tried again, PostgreSQL being away");
    describe_counter!(RETRIES, Unit::Count, "inserts that were tried again");
    describe_counter!(COMMIT_FAILURES, Unit::Count, "offset commits that failed; the next one covers them");
    describe_histogram!(INSERT, Unit::Seconds, "one insert, retries included");
    describe_histogram!(AGE, Unit::Seconds, "from acceptance at the gateway to being readable, of the oldest row of a block");
}

pub(crate) fn decoded(events: usize) {
    counter!(RECORDS).increment(1);
    counter!(EVENTS).increment(events as u64);
}

pub(crate) fn rejected() {
    counter!(RECORDS).increment(1);
    counter!(REJECTED).increment(1);
}

pub(crate) fn folded(events: usize) {
    counter!(FOLDED).increment(events as u64);
}

pub(crate) fn inserted(rows: usize, took: Duration, oldest_age: Duration) {
    counter!(INSERTED).increment(rows as u64);
    histogram!(INSERT).record(took);
    histogram!(AGE).record(oldest_age);
}

pub(crate) fn resolved(events: usize) {
    counter!(RESOLVED).increment(events as u64);
}

pub(crate) fn resolve_retried() {
    counter!(RESOLVE_RETRIES).increment(1);
}

pub(crate) fn retried() {
    counter!(RETRIES).increment(1);
}

pub(crate) fn commit_failed() {
    counter!(COMMIT_FAILURES).increment(1);
}
