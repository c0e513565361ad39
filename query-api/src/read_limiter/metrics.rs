//! Every metric of the reads, named, with unit and help.
//!
//! Must not take a label from a request.

use metrics::{counter, gauge};
use service_kit::measures;
use service_kit::measures::{By, Measure};

/// The place of one key is used up.
pub(crate) const PER_KEY: &str = "key";
/// The place of one organisation, whatever its keys, is used up.
pub(crate) const PER_ORGANIZATION: &str = "organization";
/// The place of everybody is used up.
pub(crate) const IN_ALL: &str = "process";

const LIMIT: By = By {
    label: "limit",
    says: "`key`: 429, that key has all of its own; `organization`: 429, that organisation has; `process`: 503, there is none for anybody",
    values: &[PER_KEY, PER_ORGANIZATION, IN_ALL],
};

measures! {
    REFUSED = Measure::counter("query_reads_refused_total", "reads", "reads refused because too many were under way").by(&[LIMIT]);
    UNDER_WAY = Measure::gauge("query_reads_under_way", "reads", "reads under way; a streamed list until its last item is out");
}

pub(crate) fn refused(limit: &'static str) {
    counter!(REFUSED.name, LIMIT.label => limit).increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double, and there are hundreds at most")]
pub(crate) fn permit(reads: usize) {
    gauge!(UNDER_WAY.name).set(reads as f64);
}
