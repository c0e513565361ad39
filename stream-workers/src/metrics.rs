//! Every metric of the worker, named, with unit and help.
//!
//! Must not take a label from a record.

use crate::record::fold::Folded;
use metrics::{counter, gauge, histogram};
use service_kit::measures;
use service_kit::measures::{By, Measure};
use std::time::Duration;

/// A refusal that passes by itself.
pub(crate) const PASSING: &str = "passing";
/// More parts than merges keep up with.
pub(crate) const TOO_MANY_PARTS: &str = "too_many_parts";
/// A block that takes more memory than ClickHouse may use.
pub(crate) const MEMORY: &str = "memory";
/// A refusal that lasts until somebody mends the table or the account.
pub(crate) const LASTING: &str = "lasting";

const WHY: By = By {
    label: "why",
    says: "what ClickHouse lacks: `passing`, `too_many_parts`, `memory`, `lasting`",
    values: &[PASSING, TOO_MANY_PARTS, MEMORY, LASTING],
};

const AS: By = By {
    label: "became",
    says: "what became of them: `inserted`, `folded` (repeats within a block), `rejected`",
    values: &["inserted", "folded", "rejected"],
};

// What adds up with the gateway's figures: docs/metrics.md, and the test `reconcile`.
measures! {
    RECORDS = Measure::counter("worker_records_total", "records", "records read from the log");
    EVENTS = Measure::counter("worker_events_total", "events", "events decoded");
    FOLDED = Measure::counter("worker_events_folded_total", "events", "events that repeated another one of their block, and were not inserted");
    INSERTED = Measure::counter("worker_rows_inserted_total", "events", "events whose insert ClickHouse acknowledged");
    REJECTED = Measure::counter("worker_records_rejected_total", "records", "records that became dead letters");
    EVENTS_REJECTED = Measure::counter("worker_events_rejected_total", "events", "events of records that became dead letters, where those say how many");
    RESOLVED = Measure::counter("worker_events_resolved_total", "events", "events whose click token or agent the gateway could not look up and the worker did");
    RESOLVE_RETRIES = Measure::counter("worker_resolve_retries_total", "lookups", "look-ups of click tokens and agents, and writes of sessions, that were tried again, PostgreSQL being away");
    RETRIES = Measure::counter("worker_insert_retries_total", "inserts", "inserts that were tried again, by what ClickHouse lacks").by(&[WHY]);
    STOPPED = Measure::gauge("worker_insert_stopped", "boolean", "1 while ClickHouse refuses rows until somebody mends the table or the account, else 0");
    COMMIT_FAILURES = Measure::counter("worker_commit_failures_total", "commits", "offset commits that failed; the next one covers them");
    REBALANCES = Measure::counter("worker_rebalances_total", "rebalances", "times that partitions were given to this worker or taken from it");
    PARTITIONS = Measure::gauge("worker_partitions_assigned", "partitions", "partitions that this worker has");
    LAG = Measure::gauge("worker_lag_seconds", "seconds", "time since the oldest record that was read and is not committed came to the log");
    SETTLED_RECORDS = Measure::gauge("worker_settled_records", "records", "records of this worker's partitions up to the committed offsets, since counting began; the commits say so, whoever has worked them off");
    SETTLED_EVENTS = Measure::gauge("worker_settled_events", "events", "events of those, by what became of them").by(&[AS]);
    MISSING = Measure::gauge("worker_missing_records", "records", "offsets among those that the log had dropped before anybody read them");
    MISSED = Measure::counter("worker_records_missed_total", "records", "offsets that the log had dropped before this group read them, as this worker met them");
    OFFSETS_MISSING = Measure::counter("worker_offsets_missing_total", "partitions", "partitions that the group had no offset for though their first record was more than a minute old; they are read again from the beginning");
    DELTA_ROWS = Measure::gauge("worker_delta_rows", "reports", "reports in the index that are not compacted yet, or whose part is not dropped yet");
    DELTA_PARTS = Measure::gauge("worker_delta_parts", "parts", "parts that those lie in");
    DELTA_AGE = Measure::gauge("worker_delta_age_seconds", "seconds", "time since this worker first saw the oldest insert into the index that is not compacted");
    INDEX_ROWS = Measure::gauge("worker_index_rows", "rows", "rows of the base of the index, replaced ones included, as last looked at");
    INDEX_YOUNG = Measure::gauge("worker_index_young_rows", "rows", "rows of those that no merge has written yet");
    INDEX_MERGES = Measure::gauge("worker_index_merges_per_row", "merges", "merges that have written a row of the base again, at most and on average");
    COMPACTED = Measure::counter("worker_compaction_reports_total", "reports", "reports that this worker's compactions merged into the base of the index");
    WRITTEN = Measure::counter("worker_compaction_rows_written_total", "rows", "rows of the base that they wrote for those");
    COMPACTIONS_LOST = Measure::counter("worker_compactions_lost_total", "compactions", "times that this worker stood back because another one compacts");
    COMPACTIONS_FAILED = Measure::counter("worker_compaction_failures_total", "compactions", "compactions that failed and are tried again");
    COMPACTION = Measure::duration("worker_compaction_duration_seconds", "one compaction, of all of its slices");
    WRITER_ACTIVE = Measure::gauge("worker_writer_active", "boolean", "1 while this process is the active writer, 0 while it stands by");
    WRITER_EPOCH = Measure::gauge("worker_writer_epoch", "epoch", "Epoch that this process has claimed last");
    WRITER_INDEX_KEYS = Measure::gauge("worker_writer_index_keys", "keys", "Keys in the index of the active writer");
    WRITER_INDEX_BYTES = Measure::gauge("worker_writer_index_bytes", "bytes", "Memory of that index");
    WRITER_REPEATED = Measure::counter("worker_writer_statements_repeated_total", "statements", "Inserts of the writer that were repeated because their outcome was unknown");
    WRITER_FETCHED = Measure::counter("worker_writer_rows_fetched_total", "rows", "Current rows of events that the writer fetched because they were not in memory");
    WRITER_LAG = Measure::gauge("worker_writer_lag_seconds", "seconds", "Age of the oldest record that the active writer has read and not stored");
    WRITER_DUPLICATES = Measure::gauge("worker_writer_duplicate_keys", "keys", "Events with two live rows, counted daily; must be 0");
    WRITER_DRAIN = Measure::duration("worker_writer_drain_seconds", "Time until no statement of earlier writers ran after a takeover");
    WRITER_TAKEOVER = Measure::duration("worker_writer_takeover_seconds", "Time from the claim of an epoch to the first block, without reading the log");
    INSERT = Measure::duration("worker_insert_duration_seconds", "one insert, retries included");
    AGE = Measure::duration("worker_event_age_seconds", "from acceptance at the gateway to being readable, of every inserted event");
}

pub(crate) fn decoded(events: usize) {
    counter!(RECORDS.name).increment(1);
    counter!(EVENTS.name).increment(events as u64);
}

pub(crate) fn rejected(events: usize) {
    counter!(RECORDS.name).increment(1);
    counter!(REJECTED.name).increment(1);
    counter!(EVENTS_REJECTED.name).increment(events as u64);
}

pub(crate) fn inserted(folded: &Folded, now_us: i64, took: Duration) {
    counter!(INSERTED.name).increment(folded.rows.len() as u64);
    counter!(FOLDED.name).increment(folded.repeats.len() as u64);
    histogram!(INSERT.name).record(took);
    let age = histogram!(AGE.name);
    for row in &folded.rows {
        let age_us = now_us.saturating_sub(row.received_at_us());
        age.record(Duration::from_micros(u64::try_from(age_us).unwrap_or(0)));
    }
}

/// What the commits say of all partitions that this worker has: their records, of the events how many were inserted, folded and
/// rejected, and the offsets that are missing.
pub(crate) fn settled(records: u64, events: [u64; 3], missing: u64) {
    gauge!(SETTLED_RECORDS.name).set(records as f64);
    for (became, events) in AS.values.iter().zip(events) {
        gauge!(SETTLED_EVENTS.name, AS.label => *became).set(events as f64);
    }
    gauge!(MISSING.name).set(missing as f64);
}

pub(crate) fn missed(records: u64) {
    counter!(MISSED.name).increment(records);
}

pub(crate) fn offset_missing() {
    counter!(OFFSETS_MISSING.name).increment(1);
}

pub(crate) fn resolved(events: usize) {
    counter!(RESOLVED.name).increment(events as u64);
}

pub(crate) fn resolve_retried() {
    counter!(RESOLVE_RETRIES.name).increment(1);
}

/// `why` is one of the names above.
pub(crate) fn retried(why: &'static str) {
    counter!(RETRIES.name, WHY.label => why).increment(1);
}

pub(crate) fn stopped(is_stopped: bool) {
    gauge!(STOPPED.name).set(if is_stopped { 1.0 } else { 0.0 });
}

pub(crate) fn commit_failed() {
    counter!(COMMIT_FAILURES.name).increment(1);
}

pub(crate) fn rebalanced() {
    counter!(REBALANCES.name).increment(1);
}

pub(crate) fn assigned(partitions: usize) {
    gauge!(PARTITIONS.name).set(partitions as f64);
}

pub(crate) fn lag(behind: Duration) {
    gauge!(LAG.name).set(behind);
}

pub(crate) fn delta(parts: usize, rows: u64, oldest: Duration) {
    gauge!(DELTA_PARTS.name).set(parts as f64);
    gauge!(DELTA_ROWS.name).set(rows as f64);
    gauge!(DELTA_AGE.name).set(oldest);
}

pub(crate) fn base(rows: u64, young: u64, merges_per_row: f64) {
    gauge!(INDEX_ROWS.name).set(rows as f64);
    gauge!(INDEX_YOUNG.name).set(young as f64);
    gauge!(INDEX_MERGES.name).set(merges_per_row);
}

pub(crate) fn compacted(reports: u64, written: u64, took: Duration) {
    counter!(COMPACTED.name).increment(reports);
    counter!(WRITTEN.name).increment(written);
    histogram!(COMPACTION.name).record(took);
}

pub(crate) fn compaction_lost() {
    counter!(COMPACTIONS_LOST.name).increment(1);
}

pub(crate) fn compaction_failed() {
    counter!(COMPACTIONS_FAILED.name).increment(1);
}

pub(crate) fn writer_is_active(is_active: bool) {
    gauge!(WRITER_ACTIVE.name).set(if is_active { 1.0 } else { 0.0 });
}

pub(crate) fn took_over(epoch: u64, drained: Duration, took: Duration) {
    gauge!(WRITER_EPOCH.name).set(epoch as f64);
    histogram!(WRITER_DRAIN.name).record(drained);
    histogram!(WRITER_TAKEOVER.name).record(took);
}

pub(crate) fn index_size(keys: usize, bytes: usize) {
    gauge!(WRITER_INDEX_KEYS.name).set(keys as f64);
    gauge!(WRITER_INDEX_BYTES.name).set(bytes as f64);
}

pub(crate) fn statement_repeated() {
    counter!(WRITER_REPEATED.name).increment(1);
}

pub(crate) fn fetched(rows: u64) {
    counter!(WRITER_FETCHED.name).increment(rows);
}

pub(crate) fn writer_lag(behind: Duration) {
    gauge!(WRITER_LAG.name).set(behind);
}

pub(crate) fn duplicate_keys(keys: u64) {
    gauge!(WRITER_DUPLICATES.name).set(keys as f64);
}
