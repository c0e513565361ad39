//! The one way out: webhooks, domain verification and OpenID go through this guard (docs/api/webhooks.md#webhook-url).
//!
//! ```text
//!  url ── schemas::receiver ──► https, a public host name, port 443          RefusedUrl
//!   │
//!   ▼
//!  names ── one look-up ──────► every answer public unicast (address)        RefusedAddress, NoAddress
//!   │
//!   ▼
//!  attempt ── those addresses ► TLS for the name, one request, one answer    Unreachable, Tls, Protocol
//!                                                   all of it in one deadline: Timeout
//! ```
//!
//! An attempt follows no redirect, uses no proxy, keeps no connection, inflates no body and connects only to addresses that were
//! checked. What goes wrong is said in coarse words: whoever chose the URL must not learn about the inside.

pub mod address;
mod attempt;
mod names;
pub(crate) mod trust;

pub use attempt::HttpAnswer;
pub use trust::TlsFault;

use crate::settings::WebhookSettings;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use names::Names;
use rustls::ClientConfig;
use schemas::receiver::{AllowedReceivers, receiver_url};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::{Host, Url};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The URL may not be called: not HTTPS, not a public host name, not port 443.
    RefusedUrl,
    /// The name points, also, at an address that is not a public one.
    RefusedAddress,
    /// The name has no address, or nobody who knows it answers.
    NoAddress,
    /// Nobody takes the connection, or it broke.
    Unreachable,
    /// TLS did not come about: the certificate is not one for this name, by somebody who is trusted, for this day.
    Tls(TlsFault),
    Protocol,
    Timeout,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub method: Method,
    /// Besides those of the connection, which are ours.
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The guard; cheap to clone.
#[derive(Clone)]
pub struct Egress {
    names: Names,
    tls: Arc<ClientConfig>,
    allowed: AllowedReceivers,
    takes_plain: bool,
}

impl Egress {
    /// A guard that lets public HTTPS servers be called, and the receivers that the operator allows.
    pub fn new(settings: &WebhookSettings) -> anyhow::Result<Self> {
        let mut tls = trust::client_config("WEBHOOK_EXTRA_CA", settings.webhook_extra_ca.as_deref())?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let names = Names::new(settings.dns_server)?;
        Ok(Self { names, tls: Arc::new(tls), allowed: settings.webhook_allow.clone(), takes_plain: false })
    }

    /// The same guard for servers that the operator chooses, not tenants: other ones are allowed, and those of them that are
    /// on this machine may do without TLS.
    #[must_use]
    pub fn for_operators(self, allowed: AllowedReceivers) -> Self {
        Self { allowed, takes_plain: true, ..self }
    }

    /// Asks for `url`. The deadline bounds everything, looking the name up included; of the body at most `cap` bytes
    /// are read.
    pub async fn get(&self, url: &Url, deadline: Duration, cap: usize) -> Result<HttpAnswer, Failure> {
        let message = Message { method: Method::GET, headers: HeaderMap::new(), body: Bytes::new() };
        self.send(url, message, deadline, cap).await
    }

    /// Sends `body` to `url`; deadline and `cap` as in [`Egress::get`].
    pub async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        deadline: Duration,
        cap: usize,
    ) -> Result<HttpAnswer, Failure> {
        self.send(url, Message { method: Method::POST, headers, body }, deadline, cap).await
    }

    /// Sends any request; deadline and `cap` as in [`Egress::get`]. With a cap of nothing the answer is there with its head,
    /// whatever becomes of its body.
    pub async fn send(&self, url: &Url, message: Message, deadline: Duration, cap: usize) -> Result<HttpAnswer, Failure> {
        timeout(deadline, self.attempt(url, message, cap)).await.unwrap_or(Err(Failure::Timeout))
    }

    /// The URL as it would be called, if it may be; what its name stands for is looked at when it is.
    pub fn check(&self, url: &Url) -> Result<Url, Failure> {
        if self.may_be_plain(url) && self.allowed.contain(url) {
            return Ok(url.clone());
        }
        receiver_url(url.as_str(), &self.allowed).map_err(|_| Failure::RefusedUrl)
    }

    fn may_be_plain(&self, url: &Url) -> bool {
        let is_bare = url.username().is_empty() && url.password().is_none();
        self.takes_plain && url.scheme() == "http" && is_this_machine(url) && is_bare
    }

    /// The texts that stand in DNS under `name`, each in one piece. Nothing is connected to, so no address is looked at.
    pub async fn texts(&self, name: &str, deadline: Duration) -> Result<Vec<String>, Failure> {
        timeout(deadline, self.names.texts(name)).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn attempt(&self, url: &Url, message: Message, cap: usize) -> Result<HttpAnswer, Failure> {
        let url = self.check(url)?;
        let addresses = self.names.addresses(&url).await?;
        // Without TLS nobody says who they are, so nobody but this machine is asked.
        if url.scheme() == "http" && !addresses.iter().all(|address| address.ip().is_loopback()) {
            return Err(Failure::RefusedAddress);
        }
        // The whole answer, not one address of it: who mixes public and private ones is up to something.
        if !self.allowed.contain(&url) && !addresses.iter().all(|address| address::is_public(address.ip())) {
            return Err(Failure::RefusedAddress);
        }
        attempt::exchange(&url, &addresses, &self.tls, message, cap).await
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
