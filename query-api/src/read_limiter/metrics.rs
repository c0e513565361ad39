//! Read metrics. `service_kit::slots` counts rejected reads.

use metrics::gauge;
use service_kit::metric_definitions;
use service_kit::metric_definitions::Metric;

metric_definitions! {
    UNDER_WAY = Metric::gauge("query_reads_in_progress", "reads", "Reads in progress, including streamed responses until their last item");
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double, and there are hundreds at most")]
pub(crate) fn set_running_reads(reads: usize) {
    gauge!(UNDER_WAY.name).set(reads as f64);
}
