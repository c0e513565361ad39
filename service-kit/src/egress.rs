//! All outgoing requests to hosts that tenants choose: webhooks, domain verification and OpenID (docs/api/webhooks.md#webhook-url).
//!
//! ```text
//!  url ── schemas::receiver ──► https, a public hostname, port 443           RefusedUrl
//!   │
//!   ▼
//!  names ── one lookup ───────► every address public unicast (address)       RefusedAddress, NoAddress
//!   │
//!   ▼
//!  attempt ── those addresses ► TLS for the name, one request, one response  Unreachable, Tls, Protocol
//!                                                   all within one deadline: Timeout
//! ```
//!
//! An attempt doesn't follow redirects, use a proxy, reuse a connection or decompress a body, and connects only to checked
//! addresses. Errors are coarse, because the tenant that chose the URL must not learn about the internal network.

pub mod public_address;
mod http_exchange;
mod dns;
pub(crate) mod tls_trust;

pub use http_exchange::EgressResponse;
pub use tls_trust::TlsError;

use crate::settings::WebhookSettings;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use dns::DnsResolver;
use rustls::ClientConfig;
use schemas::webhook_url::{AllowedReceivers, parse_webhook_url};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::{Host, Url};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EgressError {
    /// The URL is not allowed: not HTTPS, not a public hostname, or not port 443.
    RefusedUrl,
    /// At least one of the name's addresses is not public.
    RefusedAddress,
    /// The name has no address, or DNS didn't respond.
    NoAddress,
    /// The connection was rejected or broke.
    Unreachable,
    /// The TLS handshake failed, usually because of the certificate.
    Tls(TlsError),
    Protocol,
    Timeout,
}

#[derive(Clone, Debug)]
pub struct EgressRequest {
    pub method: Method,
    /// Additional headers. The connection's own headers, such as `Host`, are always set.
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The guard; cheap to clone.
#[derive(Clone)]
pub struct Egress {
    names: DnsResolver,
    tls: Arc<ClientConfig>,
    allowed: AllowedReceivers,
    allows_plain_http: bool,
}

impl Egress {
    /// Allows public HTTPS servers and the receivers in `WEBHOOK_ALLOW`.
    pub fn new(settings: &WebhookSettings) -> anyhow::Result<Self> {
        let mut tls = tls_trust::client_config("WEBHOOK_EXTRA_CA", settings.webhook_extra_ca.as_deref())?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let names = DnsResolver::new(settings.dns_server)?;
        Ok(Self { names, tls: Arc::new(tls), allowed: settings.webhook_allow.clone(), allows_plain_http: false })
    }

    /// Returns a guard for servers chosen by the operator: allows `allowed`, and plain HTTP for the servers among them that run on this
    /// machine.
    #[must_use]
    pub fn for_operators(self, allowed: AllowedReceivers) -> Self {
        Self { allowed, allows_plain_http: true, ..self }
    }

    /// Sends a GET request to `url`. The deadline includes the DNS lookup; at most `cap` bytes of the body are read.
    pub async fn get(&self, url: &Url, deadline: Duration, cap: usize) -> Result<EgressResponse, EgressError> {
        let message = EgressRequest { method: Method::GET, headers: HeaderMap::new(), body: Bytes::new() };
        self.send(url, message, deadline, cap).await
    }

    pub async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        deadline: Duration,
        cap: usize,
    ) -> Result<EgressResponse, EgressError> {
        self.send(url, EgressRequest { method: Method::POST, headers, body }, deadline, cap).await
    }

    /// Sends a request; `deadline` and `cap` as in [`Egress::get`]. With a cap of 0, it returns after the response head and ignores errors
    /// in the body.
    pub async fn send(
        &self,
        url: &Url,
        message: EgressRequest,
        deadline: Duration,
        cap: usize,
    ) -> Result<EgressResponse, EgressError> {
        timeout(deadline, self.attempt(url, message, cap)).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// Returns the URL to request if it is allowed. Its addresses are checked later, when it is requested.
    pub fn check(&self, url: &Url) -> Result<Url, EgressError> {
        if self.may_be_plain(url) && self.allowed.allows(url) {
            return Ok(url.clone());
        }
        parse_webhook_url(url.as_str(), &self.allowed).map_err(|_| EgressError::RefusedUrl)
    }

    fn may_be_plain(&self, url: &Url) -> bool {
        let is_bare = url.username().is_empty() && url.password().is_none();
        self.allows_plain_http && url.scheme() == "http" && is_this_machine(url) && is_bare
    }

    /// Returns the TXT records of `name`, each as one string. Doesn't check addresses, because it doesn't connect to any.
    pub async fn txt_records(&self, name: &str, deadline: Duration) -> Result<Vec<String>, EgressError> {
        timeout(deadline, self.names.txt_records(name)).await.unwrap_or(Err(EgressError::Timeout))
    }

    async fn attempt(&self, url: &Url, message: EgressRequest, cap: usize) -> Result<EgressResponse, EgressError> {
        let url = self.check(url)?;
        let addresses = self.names.addresses(&url).await?;
        // Plain HTTP doesn't authenticate the server, so it is limited to this machine.
        if url.scheme() == "http" && !addresses.iter().all(|address| address.ip().is_loopback()) {
            return Err(EgressError::RefusedAddress);
        }
        // Check all addresses, because a mix of public and private ones is likely an attack.
        if !self.allowed.allows(&url) && !addresses.iter().all(|address| public_address::is_public(address.ip())) {
            return Err(EgressError::RefusedAddress);
        }
        http_exchange::exchange(&url, &addresses, &self.tls, message, cap).await
    }
}

pub(crate) fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
