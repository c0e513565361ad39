//! A service that responds as configured, and a run that uses it.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::IntoResponse as _;
use loadgen::client::Endpoint;
use loadgen::drive::RunContext;
use loadgen::oracle::Oracle;
use loadgen::tenants::Tenant;
use loadgen::workload::{Generator, Mix, Shape, Skew};
use serde_json::json;
use service_kit::testing::TestServer;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Copy)]
pub(crate) struct ResponseBehavior {
    pub(crate) status: u16,
    /// Start and length of a period in which it doesn't respond.
    pub(crate) stall: Option<(Duration, Duration)>,
}

pub(crate) async fn start(manner: ResponseBehavior) -> TestServer {
    let begun = Instant::now();
    let answer = move || async move {
        if let Some((after, length)) = manner.stall
            && (after..after + length).contains(&begun.elapsed())
        {
            tokio::time::sleep_until(begun + after + length).await;
        }
        let status = StatusCode::from_u16(manner.status).expect("the status of a test is valid");
        (status, Json(json!({"status": "ok", "events_created": 1}))).into_response()
    };
    // A fallback instead of a route, because responses from documented routes are checked against the OpenAPI document.
    TestServer::start(axum::Router::new().fallback(answer)).await
}

pub(crate) fn run_context(url: &str, deadline: Duration) -> Arc<RunContext> {
    let shape = Shape { seed: 1, run: 1, started_at_ms: 1_790_000_000_000, late_percent: 0, request_lengths: Vec::new() };
    let (name, key) = ("example.com".to_owned(), HeaderValue::from_static("key"));
    let keys = std::array::from_fn(|_| key.clone());
    let tenant = Tenant { domain: name.clone(), name, owner: None, network: None, owner_key: key, keys };
    let mix = Mix { batch: 1, observers: 1, duplicate_percent: 0 };
    Arc::new(RunContext {
        ingest: Endpoint::parse(url).expect("the address of a test is valid"),
        generator: Mutex::new(Generator::new(shape.clone(), mix, 1, Skew::new(1, 0.0))),
        oracle: Mutex::new(Oracle::new(shape.clone(), [tenant.name.clone()])),
        tenants: vec![tenant],
        shape,
        deadline,
        stop: CancellationToken::new(),
    })
}
