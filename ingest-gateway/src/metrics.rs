//! The gateway's metrics, with unit and help.

use metrics::{counter, gauge, histogram};
use schemas::identity::DrainProvider;
use service_kit::metric_definitions;
use service_kit::metric_definitions::{Metric, MetricLabel};
use std::time::Duration;

const WHAT: MetricLabel = MetricLabel {
    label: "what",
    description: "`damaged`: unreadable parts of the spill; `refused`: records that Kafka rejected permanently",
    values: &["damaged", "refused"],
};

const OUTCOME: MetricLabel = MetricLabel {
    label: "outcome",
    description: "`kept`: fetches by bots; `people`: requests by people; `dropped`: requests by bots that aren't counted; `refused`: failed fetches by bots; `bad`: unreadable lines",
    values: &["kept", "people", "dropped", "refused", "bad"],
};
const PROVIDER: MetricLabel =
    MetricLabel { label: "provider", description: "provider, as in the drain's URL", values: &DrainProvider::NAMES };

metric_definitions! {
    ACCEPTED = Metric::counter("gateway_events_accepted_total", "events", "Events accepted: acknowledged by Kafka or durable in the spill");
    UNCLASSIFIED = Metric::counter("gateway_values_unclassified_total", "values", "Citation types and positions that the standard doesn't list, stored as unclassified");
    UNRESOLVED = Metric::counter("gateway_events_unresolved_total", "events", "Accepted events whose click token the worker has to look up, because PostgreSQL was unavailable");
    ACK = Metric::duration("gateway_ack_duration_seconds", "Time from sending a record to Kafka to its acknowledgement");
    UNACKED = Metric::counter("gateway_requests_unacknowledged_total", "records", "Records that Kafka did not acknowledge in time; they went to the spill or failed");
    ACKED_LATE = Metric::counter("gateway_events_acknowledged_late_total", "events", "Events in records that Kafka acknowledged after their request had used the spill or ended; not counted as accepted");
    UNACKED_BYTES = Metric::gauge("gateway_unacked_bytes", "bytes", "Unacknowledged bytes sent to Kafka, without those from the spill");
    BREAKER_OPEN = Metric::gauge("gateway_log_breaker_open", "boolean", "1 while records go to the spill because Kafka is unavailable, else 0");
    OVERLOADED = Metric::counter("gateway_requests_overloaded_total", "requests", "Requests rejected because too many were in progress");
    SPILLED = Metric::counter("gateway_spilled_records_total", "records", "Records written to the spill");
    SPILL_SYNC = Metric::duration("gateway_spill_sync_duration_seconds", "Time for a write and fsync of the spill; one write can contain several records");
    SPILL_FULL = Metric::counter("gateway_spill_full_total", "records", "Records rejected because the spill, or the organization's share of it, was full");
    SPILL_FAILED = Metric::counter("gateway_spill_write_failures_total", "writes", "Failed writes to the spill's disk");
    SPILL_SET_ASIDE = Metric::counter("gateway_spill_set_aside_total", "files", "Files with damaged parts of the spill, or with records that Kafka rejected permanently").by(&[WHAT]);
    SPILL_QUOTA = Metric::gauge("gateway_spill_quota_bytes", "bytes", "Maximum size of the spill (TELEMETRY_SPILL_MAX_BYTES)");
    SPILL_BYTES = Metric::gauge("gateway_spill_bytes", "bytes", "Size of the spill on disk");
    PENDING_RECORDS = Metric::gauge("gateway_spill_pending_records", "records", "Spilled records that are not yet on the log");
    PENDING_EVENTS = Metric::gauge("gateway_spill_pending_events", "events", "Spilled events that are not yet on the log");
    DRAIN_LINES = Metric::counter("gateway_drain_lines_total", "lines", "Log lines of accepted drain bodies").by(&[PROVIDER, OUTCOME]);
    DRAIN_COVERAGE_WAITING = Metric::gauge("gateway_drain_coverage_waiting", "rows", "Coverage rows waiting for PostgreSQL");
    DRAIN_COVERAGE_LOST = Metric::counter("gateway_drain_coverage_lost_total", "bodies", "Drain bodies whose coverage was discarded because too many rows waited for PostgreSQL; their events are stored");
    TURN_WAIT = Metric::duration("gateway_turn_wait_duration_seconds", "Time waiting to decompress or parse a body, or the next 256 KiB of a log");
    DRAINED = Metric::counter("gateway_drained_records_total", "records", "Spilled records that Kafka has acknowledged");
}

pub(crate) fn accepted(events: usize) {
    counter!(ACCEPTED.name).increment(events as u64);
}

pub(crate) fn drain_lines(provider: &'static str, outcome: &'static str, lines: u64) {
    counter!(DRAIN_LINES.name, PROVIDER.label => provider, OUTCOME.label => outcome).increment(lines);
}

pub(crate) fn drain_coverage_waiting(rows: usize) {
    gauge!(DRAIN_COVERAGE_WAITING.name).set(rows as f64);
}

pub(crate) fn drain_coverage_lost() {
    counter!(DRAIN_COVERAGE_LOST.name).increment(1);
}

pub(crate) fn acknowledged_late(events: u32) {
    counter!(ACKED_LATE.name).increment(u64::from(events));
}

pub(crate) fn unclassified(values: usize) {
    counter!(UNCLASSIFIED.name).increment(values as u64);
}

pub(crate) fn unresolved(events: usize) {
    counter!(UNRESOLVED.name).increment(events as u64);
}

pub(crate) fn unacknowledged() {
    counter!(UNACKED.name).increment(1);
}

pub(crate) fn acknowledged(after: Duration) {
    histogram!(ACK.name).record(after);
}

pub(crate) fn unacked_bytes(bytes: usize) {
    gauge!(UNACKED_BYTES.name).set(bytes as f64);
}

pub(crate) fn breaker_open(is_open: bool) {
    gauge!(BREAKER_OPEN.name).set(if is_open { 1.0 } else { 0.0 });
}

pub(crate) fn overloaded() {
    counter!(OVERLOADED.name).increment(1);
}

pub(crate) fn spilled(records: u64, after: Duration) {
    counter!(SPILLED.name).increment(records);
    histogram!(SPILL_SYNC.name).record(after);
}

pub(crate) fn spill_full() {
    counter!(SPILL_FULL.name).increment(1);
}

pub(crate) fn spill_failed() {
    counter!(SPILL_FAILED.name).increment(1);
}

/// `what` is `damaged` or `refused`.
pub(crate) fn spill_set_aside(what: &'static str) {
    counter!(SPILL_SET_ASIDE.name, WHAT.label => what).increment(1);
}

pub(crate) fn spill_quota(bytes: u64) {
    gauge!(SPILL_QUOTA.name).set(bytes as f64);
}

pub(crate) fn spill_bytes(bytes: u64) {
    gauge!(SPILL_BYTES.name).set(bytes as f64);
}

pub(crate) fn spill_pending(records: u64, events: u64) {
    gauge!(PENDING_RECORDS.name).set(records as f64);
    gauge!(PENDING_EVENTS.name).set(events as f64);
}

pub(crate) fn waited_for_turn(time: Duration) {
    histogram!(TURN_WAIT.name).record(time);
}

pub(crate) fn drained(records: u64) {
    counter!(DRAINED.name).increment(records);
}
