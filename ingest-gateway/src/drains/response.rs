//! Responses to log senders, in each provider's format (docs/api/drains.md#responses).

use super::body_counts::BodyCounts;
use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use schemas::identity::{DrainProvider, DrainResponse};
use schemas::problem::Code;
use serde::Serialize;
use serde_json::json;
use service_kit::http::ApiError;
use std::collections::BTreeMap;

/// A Firehose delivery's id.
const DELIVERY: &str = "x-amz-firehose-request-id";
/// Maximum length of an id or header that a response repeats.
const MAX_REPEATED_BYTES: usize = 256;

/// A body's line counts.
#[derive(Serialize)]
pub(super) struct Counts {
    status: &'static str,
    lines: u64,
    /// Fetches by bots. Each is an event.
    kept: u64,
    people: u64,
    dropped: BTreeMap<&'static str, u64>,
    /// Bot requests that returned no content.
    refused: u64,
    bad: u64,
}

impl Counts {
    pub(super) fn new(body_counts: &BodyCounts) -> Self {
        Self {
            status: "ok",
            lines: body_counts.lines,
            kept: body_counts.sum(|hour| hour.kept),
            people: body_counts.sum(|hour| hour.people),
            dropped: body_counts.dropped(),
            refused: body_counts.sum(|hour| hour.refused),
            bad: body_counts.sum(|hour| hour.bad),
        }
    }
}

/// A body that was processed.
pub(super) struct Counted {
    pub(super) counts: Counts,
    /// The id in the body of a Firehose delivery.
    pub(super) delivery: Option<String>,
    /// The error to return if all lines are unreadable.
    pub(super) unreadable: Option<ApiError>,
}

/// The provider, and the parts of the request that the response repeats.
pub(super) struct Responder {
    provider: DrainProvider,
    delivery: Option<String>,
    repeated: Option<HeaderValue>,
    now: DateTime<Utc>,
}

impl Responder {
    pub(super) fn new(provider: DrainProvider, headers: &HeaderMap, now: DateTime<Utc>) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let repeated = match provider.facts().response {
            DrainResponse::CountsAndHeader(name) => headers.get(name).filter(|value| value.len() <= MAX_REPEATED_BYTES).cloned(),
            DrainResponse::Counts | DrainResponse::Firehose => None,
        };
        Self { provider, delivery: text(DELIVERY).filter(|id| id.len() <= MAX_REPEATED_BYTES), repeated, now }
    }

    /// Returns the response. `delivery` is the id in the body, for senders that don't send the header.
    pub(super) fn respond(mut self, outcome: Result<Counted, ApiError>) -> Response {
        let counted = outcome.and_then(|Counted { counts, delivery, unreadable }| {
            self.delivery = self.delivery.take().or(delivery);
            unreadable.map_or(Ok(counts), Err)
        });
        match self.provider.facts().response {
            DrainResponse::Firehose => self.into_firehose(counted),
            DrainResponse::CountsAndHeader(name) => {
                let mut response = counted.map(Json).into_response();
                self.repeated.into_iter().for_each(|value| drop(response.headers_mut().insert(name, value)));
                response
            }
            DrainResponse::Counts => counted.map(Json).into_response(),
        }
    }

    fn into_firehose(self, counted: Result<Counts, ApiError>) -> Response {
        let (id, timestamp) = (self.delivery.unwrap_or_default(), self.now.timestamp_millis());
        let Err(error) = counted else {
            return Json(json!({"requestId": id, "timestamp": timestamp})).into_response();
        };
        let status = match error.code() {
            // Firehose moves a delivery's records to its backup after a 400.
            Code::InvalidRequest => StatusCode::BAD_REQUEST,
            code => StatusCode::from_u16(code.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
        };
        let body = Json(json!({"requestId": id, "timestamp": timestamp, "errorMessage": error.detail()}));
        let mut response = (status, body).into_response();
        if let Some(retry_after) = error.into_response().headers_mut().remove("retry-after") {
            response.headers_mut().insert("retry-after", retry_after);
        }
        response
    }
}

/// Returns 422 if all lines of a body are unreadable. The detail describes the first line.
pub(super) fn unreadable(body_counts: &BodyCounts) -> Option<ApiError> {
    let bad = body_counts.sum(|hour| hour.bad);
    if body_counts.lines == 0 || bad < body_counts.lines {
        return None;
    }
    let reason = body_counts.bad_lines.first().map_or("unreadable", |line| line.reason);
    let detail =
        format!("The body has no valid log line: {bad} invalid, the first because of {reason}. Check the provider in the path.");
    Some(ApiError::new(Code::InvalidRequest, detail))
}
