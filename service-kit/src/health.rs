//! `GET /health` (the process is running) and `GET /ready` (its dependencies respond).

use crate::database_clients::{clickhouse_responds, postgres_responds};
use crate::metric_definitions::common as measures;
use crate::{kafka, process};
use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Map, Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;
use tokio_util::task::AbortOnDropHandle;

pub const PROBE_DEADLINE: Duration = Duration::from_secs(1);

/// Interval of dependency checks for the metric `dependency_up`.
const WATCH_EVERY: Duration = Duration::from_secs(5);

const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// Resolves to a usable dependency's state, or to `None` if it is unavailable.
type ProbeFuture = Pin<Box<dyn Future<Output = Option<&'static str>> + Send>>;

#[derive(Clone)]
pub struct Probe {
    name: &'static str,
    ask: Arc<dyn Fn() -> ProbeFuture + Send + Sync>,
}

impl Probe {
    /// Creates a probe of the dependency `name`; `ask` returns whether `client` can use it.
    fn new<C, F, Fut>(name: &'static str, client: C, ask: F) -> Self
    where
        C: Clone + Send + Sync + 'static,
        F: Fn(C) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = bool> + Send + 'static,
    {
        Self::with_state(name, move || {
            let answer = ask(client.clone());
            async move { answer.await.then_some("ok") }
        })
    }

    /// Creates a probe whose `ask` returns a usable dependency's state in one word, or `None`.
    pub fn with_state<F, Fut>(name: &'static str, ask: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<&'static str>> + Send + 'static,
    {
        Self { name, ask: Arc::new(move || Box::pin(ask())) }
    }

    pub fn database(pool: sqlx::PgPool) -> Self {
        Self::new("database", pool, |pool| async move { postgres_responds(&pool, PROBE_DEADLINE).await })
    }

    pub fn clickhouse(client: clickhouse::Client) -> Self {
        Self::new("clickhouse", client, |client| async move { clickhouse_responds(&client, PROBE_DEADLINE).await })
    }

    pub fn kafka(producer: rdkafka::producer::FutureProducer, topic: String) -> Self {
        Self::new("kafka", (producer, topic), |(producer, topic)| async move {
            kafka::responds(&producer, &topic, PROBE_DEADLINE).await
        })
    }
}

pub fn routes<S: Clone + Send + Sync + 'static>(probes: Vec<Probe>) -> Router<S> {
    Router::new()
        .route("/health", get(|| async { axum::Json(json!({"status": "ok"})) }))
        .route("/ready", get(move || report_readiness(probes.clone())))
}

/// Checks the dependencies periodically until the handle is dropped, so Prometheus has the same data as `/ready`.
pub fn watch(probes: Vec<Probe>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            for (probe, answer) in probes.iter().zip(run_probes(&probes)) {
                measures::dependency_up(probe.name, matches!(answer.await, Ok(Ok(Some(_)))));
            }
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }))
}

fn run_probes(probes: &[Probe]) -> Vec<JoinHandle<Result<Option<&'static str>, Elapsed>>> {
    probes.iter().map(|probe| tokio::spawn(tokio::time::timeout(PROBE_DEADLINE, (probe.ask)()))).collect()
}

async fn report_readiness(probes: Vec<Probe>) -> Response {
    let asked = run_probes(&probes);
    let mut body = Map::from_iter([("status".to_owned(), Value::from("ok"))]);
    let mut away = None;
    for (probe, answer) in probes.iter().zip(asked) {
        match answer.await {
            Ok(Ok(Some(word))) => drop(body.insert(probe.name.to_owned(), Value::from(word))),
            _ => away = away.or(Some(probe.name)),
        }
    }
    match away {
        None => axum::Json(Value::Object(body)).into_response(),
        Some(name) => {
            (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({"status": "unavailable", "reason": name}))).into_response()
        }
    }
}

/// Requests `/health` from the process on this address. Every service's `health` subcommand calls it, for containers without an HTTP
/// client.
async fn check_local_process(listen: SocketAddr) -> anyhow::Result<()> {
    let target = if listen.ip().is_unspecified() { SocketAddr::from((Ipv4Addr::LOCALHOST, listen.port())) } else { listen };
    let ask = async {
        let mut stream = TcpStream::connect(target).await?;
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
        anyhow::ensure!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "TELEMETRY_LISTEN={listen}: the process responds, but is not healthy"
        );
        Ok(())
    };
    match tokio::time::timeout(PROBE_DEADLINE, ask).await {
        Ok(answer) => answer.with_context(|| format!("TELEMETRY_LISTEN={listen}: no healthy process at this address")),
        Err(_) => anyhow::bail!("TELEMETRY_LISTEN={listen}: no response within {PROBE_DEADLINE:?}"),
    }
}

pub async fn run_health_command(listen: SocketAddr) -> ExitCode {
    process::run_once(check_local_process(listen)).await
}
