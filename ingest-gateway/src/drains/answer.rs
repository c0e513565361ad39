//! What a sender of logs is told, in the form that it understands (docs/api/drains.md#answers).
//!
//! Must answer Firehose in its own form whatever the status.

use super::body_counts::BodyCounts;
use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use schemas::identity::DrainProvider;
use serde::Serialize;
use serde_json::json;
use service_kit::http::ApiError;
use std::collections::BTreeMap;

/// The id of a delivery of Firehose.
const DELIVERY: &str = "x-amz-firehose-request-id";
/// What Vercel asks a destination to repeat.
const VERIFY: HeaderName = HeaderName::from_static("x-vercel-verify");
/// Longest id and header that is repeated.
const MAX_REPEATED_BYTES: usize = 256;

/// What was in a body.
#[derive(Serialize)]
pub(super) struct Counts {
    status: &'static str,
    lines: u64,
    /// Retrievals by bots: each is an event.
    kept: u64,
    people: u64,
    dropped: BTreeMap<&'static str, u64>,
    /// Requests of bots that returned no content.
    refused: u64,
    bad: u64,
}

impl Counts {
    pub(super) fn of(body_counts: &BodyCounts) -> Self {
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

/// Who is answered, and what of its request is repeated.
pub(super) struct Asker {
    provider: DrainProvider,
    delivery: Option<String>,
    verify: Option<HeaderValue>,
    now: DateTime<Utc>,
}

impl Asker {
    pub(super) fn new(provider: DrainProvider, headers: &HeaderMap, now: DateTime<Utc>) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let verify = headers.get(&VERIFY).filter(|value| value.len() <= MAX_REPEATED_BYTES).cloned();
        Self { provider, delivery: text(DELIVERY).filter(|id| id.len() <= MAX_REPEATED_BYTES), verify, now }
    }

    /// The answer. `delivery` is the id that the body names, for who sends no header.
    pub(super) fn answer(self, outcome: Result<(Counts, Option<String>), ApiError>) -> Response {
        match self.provider {
            DrainProvider::Firehose => self.into_firehose(outcome),
            DrainProvider::Vercel => {
                let verify = self.verify;
                let mut response = outcome.map(|(counts, _)| Json(counts)).into_response();
                verify.into_iter().for_each(|value| drop(response.headers_mut().insert(VERIFY, value)));
                response
            }
            _ => outcome.map(|(counts, _)| Json(counts)).into_response(),
        }
    }

    fn into_firehose(self, outcome: Result<(Counts, Option<String>), ApiError>) -> Response {
        let timestamp = self.now.timestamp_millis();
        match outcome {
            Ok((_, named)) => {
                let id = self.delivery.or(named).unwrap_or_default();
                Json(json!({"requestId": id, "timestamp": timestamp})).into_response()
            }
            Err(error) => {
                let id = self.delivery.unwrap_or_default();
                let status = StatusCode::from_u16(error.code().status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
                let body = Json(json!({"requestId": id, "timestamp": timestamp, "errorMessage": error.detail()}));
                let mut response = (status, body).into_response();
                if let Some(retry_after) = error.into_response().headers_mut().remove("retry-after") {
                    response.headers_mut().insert("retry-after", retry_after);
                }
                response
            }
        }
    }
}
