//! An HTTP server in front of ClickHouse that disturbs some requests.

use crate::test_app::TestApp;
use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use service_kit::testing::{TestServer, clickhouse_request};
use std::sync::Arc;
use std::time::Duration;

/// Returns the disturbance for a request with this URL and body.
type Disturb = Arc<dyn Fn(&str, &Bytes) -> Disturbance + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    None,
    Delay(Duration),
    /// The response is lost after the statement was applied.
    Lost,
    /// Like `Lost`, and the statement arrives twice.
    LostAndRepeated,
    /// The server rejects it, because all statements together need too much memory.
    NoMemory,
    /// The request doesn't arrive, and there is no response.
    Held,
    ReadOnly,
}

pub(crate) async fn proxy(app: &TestApp, disturb: impl Fn(&str, &Bytes) -> Disturbance + Send + Sync + 'static) -> TestServer {
    let upstream = app.stores.clickhouse.clickhouse_url.trim_end_matches('/').to_owned();
    let disturb: Disturb = Arc::new(disturb);
    let forward = move |request: Request| pass_on(format!("{upstream}{}", request.uri()), request, Arc::clone(&disturb));
    TestServer::start(Router::new().fallback(forward)).await
}

async fn pass_on(mut url: String, request: Request, disturb: Disturb) -> Response {
    const EXCEPTION: &str = "x-clickhouse-exception-code";
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    // Statements with external tables have multipart bodies.
    let content_type = head.headers.get(CONTENT_TYPE).cloned();
    let disturbance = disturb(&url, &body);
    if disturbance == Disturbance::ReadOnly {
        url.push_str("&readonly=2");
    }
    let ask = || {
        let asked = clickhouse_request(reqwest::Method::POST, &url).body(body.clone());
        content_type.iter().fold(asked, |asked, value| asked.header(CONTENT_TYPE, value)).send()
    };
    if disturbance == Disturbance::Held {
        return std::future::pending().await;
    }
    if let Disturbance::Delay(delay) = disturbance {
        tokio::time::sleep(delay).await;
    }
    if disturbance == Disturbance::NoMemory {
        let exception = "Code: 241. DB::Exception: (total) memory limit exceeded: would use 9.00 GiB. (MEMORY_LIMIT_EXCEEDED)";
        return (StatusCode::INTERNAL_SERVER_ERROR, [(EXCEPTION, "241")], exception).into_response();
    }
    let response = ask().await.unwrap();
    if disturbance == Disturbance::LostAndRepeated {
        ask().await.unwrap();
    }
    if matches!(disturbance, Disturbance::Lost | Disturbance::LostAndRepeated) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let code = response.headers().get(EXCEPTION).cloned();
    let mut passed = (response.status(), response.bytes().await.unwrap()).into_response();
    if let Some(code) = code {
        passed.headers_mut().insert(EXCEPTION, code);
    }
    passed
}

/// Returns whether the beginning of a statement contains this text.
pub(crate) fn contains(statement: &[u8], part: &str) -> bool {
    statement[..statement.len().min(400)].windows(part.len()).any(|window| window == part.as_bytes())
}
