//! Every metric of the gateway, named, with unit and help.
//!
//! Must not take a label from a request.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::time::Duration;

const ACCEPTED: &str = "gateway_events_accepted_total";
const UNCLASSIFIED: &str = "gateway_values_unclassified_total";
const UNRESOLVED: &str = "gateway_events_unresolved_total";
const ACK: &str = "gateway_ack_duration_seconds";
const UNACKED: &str = "gateway_requests_unacknowledged_total";
const ACKED_LATE: &str = "gateway_events_acknowledged_late_total";
const UNACKED_BYTES: &str = "gateway_unacked_bytes";
const BREAKER_OPEN: &str = "gateway_log_breaker_open";
const OVERLOADED: &str = "gateway_requests_overloaded_total";
const IN_PROGRESS: &str = "gateway_appends_in_progress";
const PRODUCERS_RENEWED: &str = "gateway_producers_renewed_total";
const SPILLED: &str = "gateway_spilled_records_total";
const SPILL_SYNC: &str = "gateway_spill_sync_duration_seconds";
const SPILL_FULL: &str = "gateway_spill_full_total";
const SPILL_FAILED: &str = "gateway_spill_write_failures_total";
const SPILL_SET_ASIDE: &str = "gateway_spill_set_aside_total";
const SPILL_BYTES: &str = "gateway_spill_bytes";
const PENDING_RECORDS: &str = "gateway_spill_pending_records";
const PENDING_EVENTS: &str = "gateway_spill_pending_events";
const DRAINED: &str = "gateway_drained_records_total";

pub(crate) fn describe() {
    describe_counter!(ACCEPTED, Unit::Count, "events whose record the log acknowledged or the spill made durable");
    describe_counter!(
        UNCLASSIFIED,
        Unit::Count,
        "citation types and positions outside the standard's lists, kept as unclassified"
    );
    describe_counter!(
        UNRESOLVED,
        Unit::Count,
        "accepted events whose click token is left to the worker, because PostgreSQL did not answer"
    );
    describe_counter!(
        UNACKED,
        Unit::Count,
        "records that the log did not acknowledge in time; the spill took them, or the caller was told"
    );
    describe_counter!(
        ACKED_LATE,
        Unit::Count,
        "events of records acknowledged after their request had gone on to the spill or away: on the log, and not counted as accepted"
    );
    describe_histogram!(ACK, Unit::Seconds, "from handing a record to the producer to its acknowledgement");
    describe_gauge!(
        UNACKED_BYTES,
        Unit::Bytes,
        "records on their way to the log without an acknowledgement, drained ones not counted"
    );
    describe_gauge!(BREAKER_OPEN, Unit::Count, "1 while records go to the spill because the log does not acknowledge, else 0");
    describe_counter!(OVERLOADED, Unit::Count, "requests refused because too many were in progress");
    describe_gauge!(IN_PROGRESS, Unit::Count, "accepted requests that wait for the log or the spill");
    describe_counter!(PRODUCERS_RENEWED, Unit::Count, "producers replaced after a fatal error");
    describe_counter!(SPILLED, Unit::Count, "records made durable in the spill");
    describe_histogram!(SPILL_SYNC, Unit::Seconds, "one write and fsync of the spill, shared by the records that waited");
    describe_counter!(SPILL_FULL, Unit::Count, "records refused because the spill's quota was used up");
    describe_counter!(SPILL_FAILED, Unit::Count, "writes that the spill's disk refused");
    describe_counter!(
        SPILL_SET_ASIDE,
        Unit::Count,
        "damaged parts of the spill, and records the log refused for good, kept in files"
    );
    describe_gauge!(SPILL_BYTES, Unit::Bytes, "disk space of the spill");
    describe_gauge!(PENDING_RECORDS, Unit::Count, "records in the spill that are not yet on the log");
    describe_gauge!(PENDING_EVENTS, Unit::Count, "events in the spill that are not yet on the log");
    describe_counter!(DRAINED, Unit::Count, "spilled records that the log has acknowledged");
}

pub(crate) fn accepted(events: usize) {
    counter!(ACCEPTED).increment(events as u64);
}

pub(crate) fn acknowledged_late(events: u32) {
    counter!(ACKED_LATE).increment(u64::from(events));
}

pub(crate) fn unclassified(values: usize) {
    counter!(UNCLASSIFIED).increment(values as u64);
}

pub(crate) fn unresolved(events: usize) {
    counter!(UNRESOLVED).increment(events as u64);
}

pub(crate) fn unacknowledged() {
    counter!(UNACKED).increment(1);
}

pub(crate) fn acknowledged(after: Duration) {
    histogram!(ACK).record(after);
}

pub(crate) fn unacked_bytes(bytes: usize) {
    gauge!(UNACKED_BYTES).set(bytes as f64);
}

pub(crate) fn breaker_open(is_open: bool) {
    gauge!(BREAKER_OPEN).set(if is_open { 1.0 } else { 0.0 });
}

pub(crate) fn overloaded() {
    counter!(OVERLOADED).increment(1);
}

pub(crate) fn appends_in_progress(requests: usize) {
    gauge!(IN_PROGRESS).set(requests as f64);
}

pub(crate) fn producer_renewed() {
    counter!(PRODUCERS_RENEWED).increment(1);
}

pub(crate) fn spilled(records: u64, after: Duration) {
    counter!(SPILLED).increment(records);
    histogram!(SPILL_SYNC).record(after);
}

pub(crate) fn spill_full() {
    counter!(SPILL_FULL).increment(1);
}

pub(crate) fn spill_failed() {
    counter!(SPILL_FAILED).increment(1);
}

/// `what` is `damaged` or `refused`.
pub(crate) fn spill_set_aside(what: &'static str) {
    counter!(SPILL_SET_ASIDE, "what" => what).increment(1);
}

pub(crate) fn spill_bytes(bytes: u64) {
    gauge!(SPILL_BYTES).set(bytes as f64);
}

pub(crate) fn spill_pending(records: u64, events: u64) {
    gauge!(PENDING_RECORDS).set(records as f64);
    gauge!(PENDING_EVENTS).set(events as f64);
}

pub(crate) fn drained(records: u64) {
    counter!(DRAINED).increment(records);
}
