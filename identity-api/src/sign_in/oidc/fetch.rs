//! How this service asks a provider: with deadlines, no redirects, no proxy from the environment, and a limit on what is
//! read.
//!
//! Must stay the one place that makes a client for providers.

use openidconnect::{HttpRequest, HttpResponse};
use std::time::Duration;

const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(8);
/// Far above any set of keys.
const MAX_BYTES: usize = 256 * 1024;

/// Why a provider could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("the provider does not answer: {0:?}")]
    Failed(#[from] reqwest::Error),
    #[error("the provider's answer cannot be read: {0}")]
    Unreadable(#[from] axum::http::Error),
    #[error("the provider's answer is larger than {MAX_BYTES} bytes")]
    TooLarge,
}

/// A client for one provider. A provider over HTTPS never leads to plain HTTP.
pub(super) fn client(is_https_only: bool) -> anyhow::Result<reqwest::Client> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    // A machine without certificates can still serve mail links; providers are then refused when they are asked.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = reqwest::Client::builder().tls_backend_preconfigured(tls).https_only(is_https_only);
    let builder = builder.redirect(reqwest::redirect::Policy::none()).no_proxy();
    Ok(builder.connect_timeout(CONNECT_DEADLINE).timeout(DEADLINE).build()?)
}

/// Sends one request of the flow.
pub(super) async fn fetch(client: reqwest::Client, request: HttpRequest) -> Result<HttpResponse, FetchError> {
    let mut response = client.execute(request.try_into()?).await?;
    let mut answer = axum::http::Response::builder().status(response.status());
    if let Some(headers) = answer.headers_mut() {
        *headers = response.headers().clone();
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await? {
        if body.len() + part.len() > MAX_BYTES {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&part);
    }
    Ok(answer.body(body)?)
}
