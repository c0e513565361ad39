//! A process's logs and metrics. Both are global, so only `main` starts them.
//!
//! Label values come from enums and route templates, never from callers.

use crate::http::{Transport, set_security_headers};
use crate::metric_definitions::{common, register_metrics};
use crate::server;
use crate::settings::{LogFormat, ProcessSettings};
use anyhow::Context;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Interval for draining histograms, with or without scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Buckets in seconds, from a fast cache hit to a request at its deadline or an event that waited for the end of an outage.
const DURATION_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0];

pub fn start(settings: &ProcessSettings) -> anyhow::Result<()> {
    start_logs(settings)?;
    let listener = listen(settings.metrics_listen)
        .with_context(|| format!("TELEMETRY_METRICS_LISTEN={}: cannot listen; choose a free address", settings.metrics_listen))?;
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), DURATION_BUCKETS)?
        .install_recorder()?;
    // Both run until the process exits, because the last scrape may arrive while everything else drains.
    tokio::spawn(keep_up(handle.clone()));
    tokio::spawn(server::serve(
        listener,
        exposition(move || handle.render()),
        server::ServerLimits::default(),
        CancellationToken::new(),
    ));
    register_metrics(common::METRICS);
    Ok(())
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn keep_up(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP_EVERY).await;
        handle.run_upkeep();
    }
}

/// Returns the metrics listener's routes, without the request middleware because scrapes must not be counted as requests. The server
/// validates heads here too.
pub fn exposition(render: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let shielded = map_response(|mut response: Response| {
        set_security_headers(response.headers_mut(), Transport::Plain);
        std::future::ready(response)
    });
    let metrics = move || async move { ([(CONTENT_TYPE, TEXT_FORMAT)], render()) };
    Router::new().route("/metrics", get(metrics)).layer(shielded)
}

/// Starts logging without metrics, for short-lived commands.
pub fn start_logs(settings: &ProcessSettings) -> anyhow::Result<()> {
    // PostgreSQL sends notices about steps that a repeated migration skips.
    let filter = EnvFilter::try_new(format!("sqlx::postgres::notice=warn,{}", settings.log))
        .with_context(|| format!("TELEMETRY_LOG={}: not a log filter; try `info`", settings.log))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Text => builder.compact().init(),
    }
    Ok(())
}
