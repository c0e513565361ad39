//! The layer around every handler: request id, deadline, panics, error rendering, one log line, metrics.
//!
//! Must not look into bodies, and must not label a metric with a raw path.

use super::ApiError;
use crate::measures::common as measures;
use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use schemas::problem::{Code, PROBLEM_JSON, Problem};
use schemas::secrets::click_tokens_in;
use std::time::{Duration, Instant};
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

/// From the complete head of a request to the head of its response.
const REQUEST_DEADLINE: Duration = Duration::from_secs(25);
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID_BYTES: usize = 64;

/// The id under which a request is logged and answered; a request extension.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

/// Puts the boundary around a finished router.
pub fn with_boundary<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .fallback(|| async { ApiError::new(Code::NotFound, "There is no such path.") })
        .method_not_allowed_fallback(|| async { ApiError::new(Code::MethodNotAllowed, "The path does not serve this method.") })
        .layer(CatchPanicLayer::custom(answer_panic))
        .layer(middleware::from_fn(boundary))
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is the layer's")]
fn answer_panic(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    ApiError::internal(anyhow::anyhow!("panicked: {}", text.unwrap_or_default())).into_response()
}

async fn boundary(mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&request);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    request.extensions_mut().insert(RequestId(id.clone()));
    let response = tokio::time::timeout(REQUEST_DEADLINE, next.run(request)).await;
    let response =
        response.unwrap_or_else(|_| ApiError::unavailable(anyhow::anyhow!("over the request deadline")).into_response());
    let mut response = render(response, &id);
    seal(&mut response, &id);

    let status = response.status().as_u16();
    measures::answered(method_label(&method), route.clone(), status, started.elapsed());
    // A parameter of this name is a secret: its place says that there was one, and nothing else of the path is logged.
    let path = route.replace("{token}", "[redacted]");
    tracing::debug!(request_id = id, %method, path, status, "answered");
    response
}

fn method_label(method: &axum::http::Method) -> String {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE" | "OPTIONS") => known.to_owned(),
        _ => "other".to_owned(),
    }
}

/// A caller's own id is kept when it is harmless, so that it can be followed through several systems.
fn request_id(request: &Request) -> String {
    let is_harmless = |id: &&str| {
        !id.is_empty()
            && id.len() <= MAX_REQUEST_ID_BYTES
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            // a secret that somebody put here would be logged
            && click_tokens_in(id).next().is_none()
    };
    let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_harmless);
    given.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

/// Gives every error the one shape, whoever made it: a handler, an extractor of axum or a layer.
fn render(mut response: Response, id: &str) -> Response {
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return response;
    }
    let error = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error,
        // `/ready` says in its own words which dependency is away (decisions.md, "GET /ready").
        None if response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json") => return response,
        None => foreign(response.status()),
    };
    log(&error, id);
    let problem = Problem {
        kind: format!("urn:problem:{}", error.code.as_str()),
        title: error.code.title().to_owned(),
        status: error.code.status(),
        detail: error.detail,
        code: error.code.as_str().to_owned(),
        request_id: id.to_owned(),
        see: error.see.map(str::to_owned),
        errors: error.faults,
    };
    let body = serde_json::to_vec(&problem).expect("a problem has only strings and numbers");
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    Response::from_parts(parts, Body::from(body))
}

/// An error response that no handler of ours made.
fn foreign(status: StatusCode) -> ApiError {
    match status {
        StatusCode::NOT_FOUND => ApiError::new(Code::NotFound, "There is no such path."),
        StatusCode::METHOD_NOT_ALLOWED => ApiError::new(Code::MethodNotAllowed, "The path does not serve this method."),
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(Code::TooLarge, "The request is too large."),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ApiError::new(Code::UnsupportedMediaType, "Send the body as application/json."),
        status if status.is_client_error() => ApiError::new(Code::InvalidParameter, "The request could not be understood."),
        status => ApiError::internal(anyhow::anyhow!("answered {status} without a reason")),
    }
}

fn log(error: &ApiError, id: &str) {
    let (code, status) = (error.code.as_str(), error.code.status());
    match &error.inside {
        Some(inside) if status >= 500 => tracing::error!(request_id = id, code, status, "request failed: {inside:#}"),
        _ => tracing::debug!(request_id = id, code, status, "request refused: {}", error.detail),
    }
}

fn seal(response: &mut Response, id: &str) {
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, HeaderValue::from_str(id).expect("a request id is plain ASCII"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}
