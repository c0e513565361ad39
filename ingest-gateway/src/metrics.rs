//! Every metric of the gateway, named, with unit and help.
//!
//! Must not take a label from a request.

use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use std::time::Duration;

const ACCEPTED: &str = "gateway_events_accepted_total";
const UNCLASSIFIED: &str = "gateway_values_unclassified_total";
const ACK: &str = "gateway_ack_duration_seconds";
const UNACKED: &str = "gateway_requests_unacknowledged_total";

pub(crate) fn describe() {
    describe_counter!(ACCEPTED, Unit::Count, "events whose record the log acknowledged");
    describe_counter!(
        UNCLASSIFIED,
        Unit::Count,
        "citation types and positions outside the standard's lists, kept as unclassified"
    );
    describe_counter!(UNACKED, Unit::Count, "valid requests that the log did not acknowledge in time");
    describe_histogram!(ACK, Unit::Seconds, "from handing a record to the producer to its acknowledgement");
}

pub(crate) fn accepted(events: usize) {
    counter!(ACCEPTED).increment(events as u64);
}

pub(crate) fn unclassified(values: usize) {
    counter!(UNCLASSIFIED).increment(values as u64);
}

pub(crate) fn unacknowledged() {
    counter!(UNACKED).increment(1);
}

pub(crate) fn acknowledged(after: Duration) {
    histogram!(ACK).record(after);
}
