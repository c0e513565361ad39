//! HTTP client for providers. Uses the egress guard, with a timeout and a size limit.

use openidconnect::{HttpRequest, HttpResponse};
use service_kit::egress::{Egress, EgressError, EgressRequest};
use std::time::Duration;
use url::Url;

const DEADLINE: Duration = Duration::from_secs(8);
/// Much larger than any key set.
const MAX_BYTES: usize = 256 * 1024;

#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("the provider doesn't respond: {0:?}")]
    Failed(EgressError),
    #[error("the provider's metadata contains an invalid URL")]
    NoUrl(#[from] url::ParseError),
    #[error("failed to read the provider's response: {0}")]
    Unreadable(#[from] axum::http::Error),
    #[error("the provider's response is larger than {MAX_BYTES} bytes")]
    TooLarge,
}

#[derive(Clone)]
pub(super) struct Fetcher {
    pub(super) egress: Egress,
    /// Set for HTTPS providers, which must not redirect to plain HTTP.
    pub(super) is_https_only: bool,
}

impl Fetcher {
    pub(super) async fn fetch(self, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string())?;
        if self.is_https_only && url.scheme() != "https" {
            return Err(FetchError::Failed(EgressError::RefusedUrl));
        }
        let message = EgressRequest { method: head.method, headers: head.headers, body: body.into() };
        let answer = self.egress.send(&url, message, DEADLINE, MAX_BYTES).await.map_err(FetchError::Failed)?;
        if answer.is_truncated {
            return Err(FetchError::TooLarge);
        }
        let mut response = axum::http::Response::builder().status(answer.status);
        if let Some(headers) = response.headers_mut() {
            *headers = answer.headers;
        }
        Ok(response.body(answer.body)?)
    }
}
