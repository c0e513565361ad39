//! Logs and metrics of a process. Called from `main` only: both are global to the process.
//!
//! Must not label a metric with anything a caller chose: labels come from enums and route templates.

use crate::measures::{announce, common};
use crate::settings::{LogFormat, ProcessSettings};
use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tracing_subscriber::EnvFilter;

/// Seconds; from a fast hit to a request at its deadline, and to an event that waited for an outage to end.
const DURATION_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0];

/// Starts logging and the Prometheus listener.
pub fn start(settings: &ProcessSettings) -> anyhow::Result<()> {
    start_logs(settings)?;
    PrometheusBuilder::new()
        .with_http_listener(settings.metrics_listen)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), DURATION_BUCKETS)?
        .install()
        .with_context(|| format!("TELEMETRY_METRICS_LISTEN={}: cannot listen; choose a free address", settings.metrics_listen))?;
    announce(common::MEASURES);
    Ok(())
}

/// Starts logging alone, for what ends by itself and has no listener.
pub fn start_logs(settings: &ProcessSettings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log)
        .with_context(|| format!("TELEMETRY_LOG={}: not a log filter; try `info`", settings.log))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Text => builder.compact().init(),
    }
    Ok(())
}
