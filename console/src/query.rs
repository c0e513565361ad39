//! Query parameters, and escaping of addresses.

use crate::failure::Failure;
use axum::extract::{FromRequestParts, Query as Parsed};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// Escapes a string for use as one path segment.
pub(crate) fn path_segment(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Returns a link that opens a new email.
pub(crate) fn mail(subject: &str, body: &str) -> String {
    format!("mailto:?subject={}&body={}", path_segment(subject), path_segment(body))
}

/// Query parameters of a request.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let parsed = Parsed::<T>::from_request_parts(parts, state).await;
        parsed
            .map(|Parsed(asked)| Self(asked))
            .map_err(|_| Failure::Unreadable("The address contains an invalid parameter.".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_segment_escapes_separators() {
        assert_eq!(path_segment("a/b?c#d e%2F'é"), "a%2Fb%3Fc%23d%20e%252F%27%C3%A9");
        assert_eq!(path_segment("67e55044-10b1_~."), "67e55044-10b1_~.");
    }
}
