//! Query strings, parsed into a type before the handler runs. Returns 400 if parsing fails.

use super::ApiError;
use axum::extract::{FromRequestParts, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use schemas::instant;
use schemas::problem::Code;
use serde::de::DeserializeOwned;

/// The query string as `T`; rejects repeated parameters.
pub struct Parameters<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        Self::from_uri(&parts.uri)
    }
}

impl<T: DeserializeOwned> Parameters<T> {
    pub fn from_uri(uri: &Uri) -> Result<Self, ApiError> {
        match Query::<T>::try_from_uri(uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(_) => Err(ApiError::new(Code::InvalidParameter, "A query parameter is repeated or invalid.")),
        }
    }
}

/// Parses an RFC 3339 timestamp. An unencoded `+` before the offset arrives as a space.
pub fn parse_instant(text: &str) -> Option<DateTime<Utc>> {
    match text.rsplit_once(' ') {
        Some((instant, offset)) if offset.len() == 5 => instant::parse_rfc3339(&format!("{instant}+{offset}")),
        _ => instant::parse_rfc3339(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_an_unencoded_plus_in_the_offset() {
        let expected = parse_instant("2025-12-31T19:00:00Z");
        assert!(expected.is_some());
        assert_eq!(parse_instant("2026-01-01T00:00:00+05:00"), expected);
        assert_eq!(parse_instant("2026-01-01T00:00:00 05:00"), expected);
    }

    #[test]
    fn rejects_timestamps_without_offset() {
        for text in [
            "2026-01-01 00:00",
            "2026-01-01T00:00:00+0500",
            "2026-01-01T00:00:00 +05:00",
            "1767225600",
            "",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00:00Z",
            "yesterday",
            "2026-13-01T00:00:00Z",
        ] {
            assert_eq!(parse_instant(text), None, "{text}");
        }
    }
}
