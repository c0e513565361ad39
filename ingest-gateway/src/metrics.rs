//! The gateway's metrics, with unit and help.

use metrics::{counter, gauge, histogram};
use schemas::identity::DrainProvider;
use service_kit::measures;
use service_kit::measures::{By, Measure};
use std::time::Duration;

const WHAT: By = By {
    label: "what",
    says: "`damaged`: unreadable parts of the spill; `refused`: records the log will never take",
    values: &["damaged", "refused"],
};

const OUTCOME: By = By {
    label: "outcome",
    says: "`kept`: retrievals by bots; `people`: everybody else's; `dropped`: bots' requests that are not counted; `refused`: bots that were not given the content; `bad`: unreadable",
    values: &["kept", "people", "dropped", "refused", "bad"],
};
const PROVIDER: By = By { label: "provider", says: "the last part of the path", values: &DrainProvider::NAMES };

measures! {
    ACCEPTED = Measure::counter("gateway_events_accepted_total", "events", "events whose record the log acknowledged or the spill made durable");
    UNCLASSIFIED = Measure::counter("gateway_values_unclassified_total", "values", "citation types and positions outside the standard's lists, kept as unclassified");
    UNRESOLVED = Measure::counter("gateway_events_unresolved_total", "events", "accepted events whose click token is left to the worker, because PostgreSQL did not answer");
    ACK = Measure::duration("gateway_ack_duration_seconds", "from handing a record to the producer to its acknowledgement");
    UNACKED = Measure::counter("gateway_requests_unacknowledged_total", "records", "records that the log did not acknowledge in time; the spill took them, or the caller was told");
    ACKED_LATE = Measure::counter("gateway_events_acknowledged_late_total", "events", "events of records acknowledged after their request had gone on to the spill or away: on the log, and not counted as accepted");
    UNACKED_BYTES = Measure::gauge("gateway_unacked_bytes", "bytes", "records on their way to the log without an acknowledgement, drained ones not counted");
    BREAKER_OPEN = Measure::gauge("gateway_log_breaker_open", "boolean", "1 while records go to the spill because the log does not acknowledge, else 0");
    OVERLOADED = Measure::counter("gateway_requests_overloaded_total", "requests", "requests refused because too many were in progress");
    SPILLED = Measure::counter("gateway_spilled_records_total", "records", "records made durable in the spill");
    SPILL_SYNC = Measure::duration("gateway_spill_sync_duration_seconds", "one write and fsync of the spill, shared by the records that waited");
    SPILL_FULL = Measure::counter("gateway_spill_full_total", "records", "records refused because the spill's quota was used up, or what is left of it is for other organizations");
    SPILL_FAILED = Measure::counter("gateway_spill_write_failures_total", "writes", "writes that the spill's disk refused");
    SPILL_SET_ASIDE = Measure::counter("gateway_spill_set_aside_total", "files", "damaged parts of the spill, and records the log refused for good, kept in files").by(&[WHAT]);
    SPILL_QUOTA = Measure::gauge("gateway_spill_quota_bytes", "bytes", "most disk space that the spill may take, TELEMETRY_SPILL_MAX_BYTES");
    SPILL_BYTES = Measure::gauge("gateway_spill_bytes", "bytes", "disk space of the spill");
    PENDING_RECORDS = Measure::gauge("gateway_spill_pending_records", "records", "records in the spill that are not yet on the log");
    PENDING_EVENTS = Measure::gauge("gateway_spill_pending_events", "events", "events in the spill that are not yet on the log");
    DRAIN_LINES = Measure::counter("gateway_drain_lines_total", "lines", "lines of drains whose bodies were taken in").by(&[PROVIDER, OUTCOME]);
    DRAIN_COVERAGE_WAITING = Measure::gauge("gateway_drain_coverage_waiting", "rows", "rows of coverage that wait for PostgreSQL");
    DRAIN_COVERAGE_LOST = Measure::counter("gateway_drain_coverage_lost_total", "bodies", "bodies of drains whose coverage found no room to wait for PostgreSQL; their events are kept");
    TURN_WAIT = Measure::duration("gateway_turn_wait_duration_seconds", "Time waited for a turn to decompress or parse a body, or the next 256 KiB of a log");
    DRAINED = Measure::counter("gateway_drained_records_total", "records", "spilled records that the log has acknowledged");
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
