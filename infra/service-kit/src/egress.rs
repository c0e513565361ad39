//! The one way out: webhooks, domain verification and OpenID go through this guard (decisions.md, "webhook URL").
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
//! Must not follow a redirect, use a proxy, keep a connection, inflate a body, or connect to an address that it has
//! not looked at. What goes wrong is said in coarse words: whoever chose the URL must not learn about the inside.

pub mod address;
mod attempt;
mod names;
mod trust;

pub use attempt::Answer;

use crate::settings::WebhookSettings;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use names::Names;
use rustls::ClientConfig;
use schemas::receiver::{AllowedReceivers, receiver_url};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

/// Why there is no answer.
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
    /// The certificate is not one for this name, by somebody who is trusted, for this day.
    Tls,
    /// What came back is not HTTP.
    Protocol,
    /// It took too long.
    Timeout,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The guard; cheap to clone.
#[derive(Clone)]
pub struct Egress {
    names: Names,
    tls: Arc<ClientConfig>,
    allowed: AllowedReceivers,
}

impl Egress {
    /// A guard that lets public HTTPS servers be called, and the receivers that the operator allows.
    pub fn new(settings: &WebhookSettings) -> anyhow::Result<Self> {
        let tls = trust::client_config(settings.webhook_extra_ca.as_deref())?;
        Ok(Self { names: Names::new(settings.dns_server)?, tls: Arc::new(tls), allowed: settings.webhook_allow.clone() })
    }

    /// Asks for `url`. The deadline bounds everything, looking the name up included; of the body at most `cap` bytes
    /// are read.
    pub async fn get(&self, url: &Url, deadline: Duration, cap: usize) -> Result<Answer, Failure> {
        let message = Message { method: Method::GET, headers: HeaderMap::new(), body: Bytes::new() };
        self.exchange(url, message, deadline, cap).await
    }

    /// Sends `body` to `url`; deadline and `cap` as in [`Egress::get`].
    pub async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        deadline: Duration,
        cap: usize,
    ) -> Result<Answer, Failure> {
        self.exchange(url, Message { method: Method::POST, headers, body }, deadline, cap).await
    }

    /// The texts that stand in DNS under `name`, each in one piece. Nothing is connected to, so no address is looked at.
    pub async fn texts(&self, name: &str, deadline: Duration) -> Result<Vec<String>, Failure> {
        timeout(deadline, self.names.texts(name)).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn exchange(&self, url: &Url, message: Message, deadline: Duration, cap: usize) -> Result<Answer, Failure> {
        timeout(deadline, self.attempt(url, message, cap)).await.unwrap_or(Err(Failure::Timeout))
    }

    async fn attempt(&self, url: &Url, message: Message, cap: usize) -> Result<Answer, Failure> {
        let url = receiver_url(url.as_str(), &self.allowed).map_err(|_| Failure::RefusedUrl)?;
        let addresses = self.names.addresses(&url).await?;
        // The whole answer, not one address of it: who mixes public and private ones is up to something.
        if !self.allowed.contain(&url) && !addresses.iter().all(|address| address::is_public(address.ip())) {
            return Err(Failure::RefusedAddress);
        }
        attempt::exchange(&url, &addresses, &self.tls, message, cap).await
    }
}
