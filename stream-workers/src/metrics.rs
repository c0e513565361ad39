//! The worker's metrics. Label values never come from records.

use crate::consume::partition_stats::Counts;
use metrics::{counter, gauge, histogram};
use service_kit::metric_definitions;
use service_kit::metric_definitions::{Metric, MetricLabel};
use std::time::Duration;

const AS: MetricLabel =
    MetricLabel { label: "outcome", description: "`stored` (including repeats) or `rejected`", values: &["stored", "rejected"] };

// docs/metrics.md and the test `reconcile` relate these to the gateway's figures.
metric_definitions! {
    RECORDS = Metric::counter("worker_records_total", "records", "Log records that were stored or rejected");
    STORED = Metric::counter("worker_events_stored_total", "events", "Events stored, including repeats");
    REJECTED = Metric::counter("worker_records_rejected_total", "records", "Records that became dead letters");
    EVENTS_REJECTED = Metric::counter("worker_events_rejected_total", "events", "Events in records that became dead letters, if they could be counted");
    RESOLVED = Metric::counter("worker_events_resolved_total", "events", "Events in records with a click token or an agent to look up");
    RESOLVE_RETRIES = Metric::counter("worker_resolve_retries_total", "lookups", "PostgreSQL lookups and session writes that were retried because PostgreSQL was unavailable");
    LAG = Metric::gauge("worker_lag_seconds", "seconds", "Age of the oldest record that the active writer has read but not stored");
    PROCESSED_RECORDS = Metric::gauge("worker_processed_records", "records", "Records up to the stored offsets of all partitions, by all writers");
    PROCESSED_EVENTS = Metric::gauge("worker_processed_events", "events", "Events in those records, by outcome").by(&[AS]);
    MISSING = Metric::gauge("worker_missing_records", "records", "Offsets that the log had deleted before any writer read them");
    MISSED = Metric::counter("worker_records_missed_total", "records", "Offsets that the log had deleted before this process read them");
    ACTIVE = Metric::gauge("worker_active", "boolean", "1 while this process is the active writer, 0 while it is a standby");
    EPOCH = Metric::gauge("worker_epoch", "epoch", "Last epoch claimed by this process");
    INDEX_KEYS = Metric::gauge("worker_index_keys", "keys", "Keys in the active writer's index");
    INDEX_BYTES = Metric::gauge("worker_index_bytes", "bytes", "Memory of the key index");
    REPEATED = Metric::counter("worker_statements_repeated_total", "statements", "Inserts that were repeated because their outcome was unknown");
    FETCHED = Metric::counter("worker_rows_fetched_total", "rows", "Current event rows fetched from ClickHouse because they weren't cached");
    DUPLICATES = Metric::gauge("worker_duplicate_keys", "keys", "Events with two live rows, checked daily; must be 0");
    PARTS = Metric::gauge("worker_parts_of_month", "parts", "Active parts in the largest month of the `events` table, checked every minute");
    DRAIN = Metric::duration("worker_drain_seconds", "Time from a takeover until earlier writers' statements ended");
    TAKEOVER = Metric::duration("worker_takeover_seconds", "Time from claiming an epoch to the first block, without reading the log");
    BLOCK = Metric::duration("worker_block_duration_seconds", "Time to store a block, including retries");
    AGE = Metric::duration("worker_event_age_seconds", "Time from accepting an event until it can be read");
}

pub(crate) fn stored(counts: Counts, took: Duration) {
    counter!(RECORDS.name).increment(counts.records);
    counter!(STORED.name).increment(counts.stored);
    counter!(REJECTED.name).increment(counts.rejected_records);
    counter!(EVENTS_REJECTED.name).increment(counts.rejected);
    histogram!(BLOCK.name).record(took);
}

pub(crate) fn readable(received_at_us: impl Iterator<Item = i64>, now_us: i64) {
    let age = histogram!(AGE.name);
    for received_at_us in received_at_us {
        age.record(Duration::from_micros(u64::try_from(now_us.saturating_sub(received_at_us)).unwrap_or(0)));
    }
}

/// Sets the gauges of stored progress: the counts for all partitions, and missing offsets.
pub(crate) fn processed(counts: Counts, missing: u64) {
    gauge!(PROCESSED_RECORDS.name).set(counts.records as f64);
    for (became, events) in AS.values.iter().zip([counts.stored, counts.rejected]) {
        gauge!(PROCESSED_EVENTS.name, AS.label => *became).set(events as f64);
    }
    gauge!(MISSING.name).set(missing as f64);
}

pub(crate) fn missed(records: u64) {
    counter!(MISSED.name).increment(records);
}

pub(crate) fn resolved(events: usize) {
    counter!(RESOLVED.name).increment(events as u64);
}

pub(crate) fn resolve_retried() {
    counter!(RESOLVE_RETRIES.name).increment(1);
}

pub(crate) fn lag(behind: Duration) {
    gauge!(LAG.name).set(behind);
}

/// Sets whether this process is the active writer. If it isn't, sets the active writer's figures to 0, because they would be outdated.
pub(crate) fn is_active(is_active: bool) {
    gauge!(ACTIVE.name).set(if is_active { 1.0 } else { 0.0 });
    if !is_active {
        for figure in [LAG, INDEX_KEYS, INDEX_BYTES, DUPLICATES, PARTS] {
            gauge!(figure.name).set(0.0);
        }
    }
}

pub(crate) fn took_over(epoch: u64, drained: Duration, took: Duration) {
    gauge!(EPOCH.name).set(epoch as f64);
    histogram!(DRAIN.name).record(drained);
    histogram!(TAKEOVER.name).record(took);
}

pub(crate) fn index_size(keys: usize, bytes: usize) {
    gauge!(INDEX_KEYS.name).set(keys as f64);
    gauge!(INDEX_BYTES.name).set(bytes as f64);
}

pub(crate) fn statement_repeated() {
    counter!(REPEATED.name).increment(1);
}

pub(crate) fn fetched(rows: u64) {
    counter!(FETCHED.name).increment(rows);
}

pub(crate) fn duplicate_keys(keys: u64) {
    gauge!(DUPLICATES.name).set(keys as f64);
}

pub(crate) fn parts_of_month(parts: u64) {
    gauge!(PARTS.name).set(parts as f64);
}
