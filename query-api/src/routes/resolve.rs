//! `GET /resolve`: a domain's owner. Public.
//!
//! Reads only the directory, and returns only verified owners.

use crate::State;
use crate::parameters::ReadParameters;
use axum::Json;
use axum::extract::{FromRequestParts, State as Shared};
use axum::http::request::Parts;
use clap::Args;
use schemas::problem::Code;
use schemas::site::{ContentUrl, Site};
use schemas::summary_responses::Resolution;
use service_kit::client_address::{ClientAddress, ClientSettings};
use service_kit::http::{ApiError, Parameters};
use service_kit::rate_limits::RateLimits;
use std::sync::Arc;
use url::Url;

#[derive(Args, Clone, Copy, Debug)]
pub struct ResolveSettings {
    /// Domain lookups per second from one client address; bursts of twice as many; 0: unlimited
    #[arg(long, env = "TELEMETRY_RESOLVE_RATE", default_value_t = DEFAULT_RATE)]
    pub resolve_rate: u32,
}

const DEFAULT_RATE: u32 = 200;

impl Default for ResolveSettings {
    fn default() -> Self {
        Self { resolve_rate: DEFAULT_RATE }
    }
}

/// The rate limit per client address. Prevents copying the whole directory quickly.
pub(crate) struct ResolveLimit {
    rates: RateLimits<ClientAddress>,
    clients: ClientSettings,
}

impl ResolveLimit {
    pub(crate) fn new(settings: &ResolveSettings, clients: &ClientSettings) -> Self {
        Self { rates: RateLimits::per_key(settings.resolve_rate), clients: clients.clone() }
    }
}

/// A public caller within the rate limit.
pub(crate) struct PublicCaller;

impl FromRequestParts<Arc<State>> for PublicCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        state.resolving.rates.admit(state.resolving.clients.client_address(&parts.extensions, &parts.headers))?;
        Ok(Self)
    }
}

/// The requested host as returned, and its site if it can be verified.
struct RequestedDomain {
    domain: String,
    site: Option<Site>,
}

/// Returns the verified owner of the domain's longest suffix, if it has one.
pub(crate) async fn resolve_domain(
    Shared(state): Shared<Arc<State>>,
    _: PublicCaller,
    Parameters(asked): Parameters<ReadParameters>,
) -> Result<Json<Resolution>, ApiError> {
    asked.reject_unsupported(&["domain", "url"])?;
    let asked = match (asked.get("domain"), asked.get("url")) {
        (Some(domain), None) if domain.chars().any(char::is_control) => {
            return Err(ApiError::new(Code::InvalidParameter, "domain must not contain control characters."));
        }
        (Some(domain), None) => RequestedDomain::from_domain(domain),
        (None, Some(url)) => RequestedDomain::from_url(url)?,
        _ => return Err(ApiError::new(Code::InvalidParameter, "Exactly one of domain and url is required.")),
    };
    let organization = match &asked.site {
        Some(site) => state.directory.owner_of(site).await?,
        None => None,
    };
    Ok(Json(Resolution { domain: asked.domain, handled: organization.is_some(), organization }))
}

impl RequestedDomain {
    /// Returns an invalid domain unchanged, without an owner.
    fn from_domain(domain: &str) -> Self {
        match Site::from_domain(domain) {
            Ok(site) => Self { domain: site.domain(), site: Some(site) },
            Err(_) => Self { domain: domain.trim().to_owned(), site: None },
        }
    }

    /// Uses the same function as event attribution, so both give the same result.
    fn from_url(url: &str) -> Result<Self, ApiError> {
        let refuse = || ApiError::new(Code::InvalidParameter, "url must be an absolute http or https URL.");
        let parsed = ContentUrl::parse(url).map_err(|_| refuse())?;
        if let Some(site) = parsed.site {
            return Ok(Self { domain: site.domain(), site: Some(site) });
        }
        let host = Url::parse(&parsed.stored).ok().and_then(|url| url.host_str().map(str::to_owned));
        host.map(|domain| Self { domain, site: None }).ok_or_else(refuse)
    }
}
