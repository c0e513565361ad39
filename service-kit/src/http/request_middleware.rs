//! The middleware around every handler: request id, deadline, panics, error format, one log line, metrics.

use super::{ApiError, MalformedHead};
use crate::metric_definitions::common as measures;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use schemas::problem::{Code, PROBLEM_JSON, Problem};
use schemas::secrets::looks_like_a_secret;
use std::time::{Duration, Instant};
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

const REQUEST_DEADLINE: Duration = Duration::from_secs(25);
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID_BYTES: usize = 64;
/// Metric label for requests without a route.
const NO_ROUTE: &str = "none";

/// The request id in the log and the response; a request extension.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    Plain,
    /// HTTPS, terminated by a proxy in front of this process. Adds Strict-Transport-Security.
    Https,
}

/// Wraps a complete router that clients reach over plain HTTP.
pub fn with_request_middleware<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    with_request_middleware_over(Transport::Plain, router)
}

pub fn with_request_middleware_over<S: Clone + Send + Sync + 'static>(transport: Transport, router: Router<S>) -> Router<S> {
    router
        .fallback(|| async { ApiError::new(Code::NotFound, "Path not found.") })
        .method_not_allowed_fallback(|| async { ApiError::new(Code::MethodNotAllowed, "The path doesn't support this method.") })
        .layer(CatchPanicLayer::custom(answer_panic))
        .layer(middleware::from_fn(request_middleware))
        .layer(Extension(transport))
        .layer(middleware::map_response(move |mut response: Response| {
            set_security_headers(response.headers_mut(), transport);
            std::future::ready(response)
        }))
}

#[expect(clippy::needless_pass_by_value, reason = "the layer requires this signature")]
fn answer_panic(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    ApiError::internal(anyhow::anyhow!("panicked: {}", text.unwrap_or_default())).into_response()
}

async fn request_middleware(mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or_else(|| NO_ROUTE.to_owned(), |path| path.as_str().to_owned());
    request.extensions_mut().insert(RequestId(id.clone()));
    let answered = tokio::time::timeout(REQUEST_DEADLINE, next.run(request)).await;
    let response =
        answered.unwrap_or_else(|_| ApiError::unavailable(anyhow::anyhow!("over the request deadline")).into_response());
    let mut response = render_error(response, &id);
    set_request_id(&mut response, &id);

    let status = response.status().as_u16();
    measures::request_completed(method_label(&method), route.clone(), status, started.elapsed());
    // A `{token}` in the path is a secret, so the log has the route instead of the path.
    let path = route.replace("{token}", "[redacted]");
    tracing::debug!(request_id = id, %method, path, status, "answered");
    response
}

/// Responds to a malformed head instead of the router, and closes the connection, because the rest could be read as another request.
pub(crate) fn reject_malformed_head<B>(request: &Request<B>, malformed: MalformedHead, transport: Transport) -> Response {
    let id = request_id(request.headers());
    let mut response = render_error(ApiError::new(malformed.code, malformed.detail).into_response(), &id);
    set_request_id(&mut response, &id);
    set_security_headers(response.headers_mut(), transport);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    measures::request_completed(method_label(request.method()), NO_ROUTE.to_owned(), response.status().as_u16(), Duration::ZERO);
    response
}

fn method_label(method: &axum::http::Method) -> String {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE" | "OPTIONS") => known.to_owned(),
        _ => "other".to_owned(),
    }
}

/// Returns the client's id if it is safe to log and return, so requests can be traced across systems. Otherwise returns a new one, for
/// example if the id looks like a secret.
fn request_id(headers: &HeaderMap) -> String {
    let is_harmless = |id: &&str| {
        (1..=MAX_REQUEST_ID_BYTES).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && !looks_like_a_secret(id)
    };
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_harmless);
    given.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

/// Converts errors from handlers, extractors and layers to the error format.
fn render_error(mut response: Response, id: &str) -> Response {
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return response;
    }
    let error = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error,
        // `/ready` has its own format (docs/api/http.md#health-and-readiness), and HTML pages are for people.
        None if is_own_shape(&response) => return response,
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

fn is_own_shape(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind == "application/json" || kind.starts_with("text/html")
}

/// Returns the error for a response created by axum or a layer.
fn foreign(status: StatusCode) -> ApiError {
    match status {
        StatusCode::NOT_FOUND => ApiError::new(Code::NotFound, "Path not found."),
        StatusCode::METHOD_NOT_ALLOWED => ApiError::new(Code::MethodNotAllowed, "The path doesn't support this method."),
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(Code::TooLarge, "The request is too large."),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ApiError::new(Code::UnsupportedMediaType, "Send the body as application/json."),
        status if status.is_client_error() => ApiError::new(Code::InvalidParameter, "The request could not be understood."),
        status => ApiError::internal(anyhow::anyhow!("returned {status} without a reason")),
    }
}

fn log(error: &ApiError, id: &str) {
    let (code, status) = (error.code.as_str(), error.code.status());
    match &error.cause {
        Some(inside) if status >= 500 => tracing::error!(request_id = id, code, status, "request failed: {inside:#}"),
        _ => tracing::debug!(request_id = id, code, status, "request rejected: {}", error.detail),
    }
}

fn set_request_id(response: &mut Response, id: &str) {
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, HeaderValue::from_str(id).expect("a request id is plain ASCII"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Adds security headers. Pages set their own content security policy; all other responses get a strict one.
pub(crate) fn set_security_headers(headers: &mut HeaderMap, transport: Transport) {
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if transport == Transport::Https {
        // Two years, as preload lists require. Without includeSubDomains, because other hosts of the domain aren't ours.
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=63072000"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::identity::OrgType;
    use schemas::secrets::{PlainApiKey, PlainClickToken, PlainInvite, PlainUserSession, PlainWebhookSecret};

    fn id_for(given: &str) -> String {
        request_id(Request::builder().header(REQUEST_ID, given).body(()).unwrap().headers())
    }

    #[test]
    fn keeps_harmless_request_ids() {
        let longest = "a.".repeat(32);
        for kept in [
            "1",
            "edge-7_x.Y",
            "0195f3a0-0000-7000-8000-000000000099",
            &longest,
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(id_for(kept), kept);
        }
    }

    #[test]
    fn a14_replaces_request_ids_that_look_like_secrets() {
        let secrets = [
            PlainApiKey::generate(OrgType::ContentOwner).reveal().to_owned(),
            PlainApiKey::generate(OrgType::Agent).reveal().to_owned(),
            PlainUserSession::generate().reveal().to_owned(),
            PlainClickToken::generate().reveal().to_owned(),
            PlainWebhookSecret::generate().reveal().to_owned(),
            PlainInvite::generate().reveal().to_owned(),
        ];
        let cut = |secret: &String| secret[..secret.len() - 5].to_owned();
        let within = |secret: &String| format!("x-{secret}");
        let spelt = ["SVC_PK_abc".to_owned(), "my.svc_pub_1".to_owned(), "ctx_1".to_owned(), "Whsec_1".to_owned()];
        let made_of_them =
            secrets.iter().filter(|secret| secret.contains('_')).map(cut).chain(secrets.iter().map(within)).chain(spelt);
        for refused in secrets.iter().cloned().chain(made_of_them) {
            assert_ne!(id_for(&refused), refused);
        }
        for refused in ["", "a b", "a/b", "a:b", "é", &"a.".repeat(33), "a,b", "<b>"] {
            assert_ne!(id_for(refused), refused);
        }
    }
}
