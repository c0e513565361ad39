//! Serves a router on a listener: rejects malformed heads, enforces deadlines for sending heads and reading responses, limits connections
//! in total and per address, and stops within a bounded time.
//!
//! Heads are validated here because not every router has the request middleware.

mod request_framing;
mod connection_stream;
mod read_pace;

pub use read_pace::Pace;

use crate::client_address::{ClientAddress, ClientSettings, Peer};
use crate::http::{MalformedHead, Transport, reject_malformed_head};
use crate::metric_definitions::common as measures;
use crate::slots::{NoSlot, Slot, Slots};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use connection_stream::ConnectionStream;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Time from the first byte of a connection, or the end of a response, to the end of the next request head.
pub(crate) const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// Time for requests in progress after a stop. Hanging clients are cut off afterwards.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(8);
/// Maximum number of connections. Further ones wait in the listen queue.
const MAX_CONNECTIONS: usize = 10_000;
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, such as "too many open files".
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, Default)]
pub struct ServerLimits {
    pub clients: ClientSettings,
    pub pace: Pace,
    pub transport: Transport,
}

impl ServerLimits {
    /// Returns limits for these clients with the default pace, over plain HTTP.
    pub fn for_clients(clients: &ClientSettings) -> Self {
        Self { clients: clients.clone(), ..Self::default() }
    }

    #[must_use]
    pub fn with_transport(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }
}

/// Opens a listener. Errors name the setting.
pub async fn listen(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| anyhow::anyhow!("{setting}={address}: cannot listen ({error}); choose a free address"))
}

/// Serves until `stop` is cancelled, then finishes requests in progress within [`DRAIN_DEADLINE`].
pub async fn serve(listener: TcpListener, router: Router, limits: ServerLimits, stop: CancellationToken) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let addresses = Slots::unlimited();
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &connections, &addresses, &limits.clients) => accepted,
        };
        let (stream, peer, places) = accepted;
        let service = TowerToHyperService::new(router.clone());
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_DEADLINE)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(
                TokioIo::new(ConnectionStream::new(stream, limits.pace)),
                hyper::service::service_fn(move |request| respond(&service, request, peer, limits.transport)),
            );
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            // Ignore clients' connection errors; the request middleware has counted the request.
            let _ = watched.await;
            drop(places);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_DEADLINE, graceful.shutdown()).await.is_err() {
        tracing::warn!("disconnected clients that did not finish before the drain deadline");
    }
}

/// Returns the router's response, or an error for a malformed head.
fn respond(
    service: &TowerToHyperService<Router>,
    mut request: hyper::Request<Incoming>,
    peer: IpAddr,
    transport: Transport,
) -> impl Future<Output = Result<Response, Infallible>> + use<> {
    let answer = match MalformedHead::find(&request) {
        Some(malformed) => Err(reject_malformed_head(&request, malformed, transport)),
        None => {
            request.extensions_mut().insert(Peer(peer));
            Ok(hyper::service::Service::call(service, request.map(Body::new)))
        }
    };
    async move {
        match answer {
            Ok(answer) => answer.await,
            Err(refusal) => Ok(refusal),
        }
    }
}

/// Accepts the next connection that the limits permit, with its slots.
async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
    addresses: &Arc<Slots<ClientAddress>>,
    clients: &ClientSettings,
) -> (TcpStream, IpAddr, (OwnedSemaphorePermit, Option<Slot<ClientAddress>>)) {
    let permit = Arc::clone(connections).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => match place(addresses, clients, peer.ip()) {
                Ok(place) => return (stream, peer.ip(), (permit, place)),
                Err(_) => measures::connection_cut(measures::ADDRESS_SHARE),
            },
            Err(error) => {
                tracing::warn!("failed to accept a connection: {error}");
                tokio::time::sleep(ACCEPT_BACK_OFF).await;
            }
        }
    }
}

/// Takes the connection's slot for its address; `None` for a trusted proxy, which has many clients.
fn place(
    addresses: &Arc<Slots<ClientAddress>>,
    clients: &ClientSettings,
    peer: IpAddr,
) -> Result<Option<Slot<ClientAddress>>, NoSlot> {
    match clients.connections_per_address {
        0 => Ok(None),
        _ if clients.trusts(peer) => Ok(None),
        limit => addresses.take(peer.into(), limit).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a3_limits_connections_per_address_except_for_proxies() {
        let trusted_proxies = "10.0.0.0/8".parse().unwrap();
        let clients = ClientSettings { connections_per_address: 2, trusted_proxies, ..ClientSettings::default() };
        let addresses = Slots::unlimited();
        let enter = |address: &str| place(&addresses, &clients, address.parse().unwrap());
        let (one, two) = (enter("192.0.2.1").unwrap(), enter("::ffff:192.0.2.1").unwrap());
        assert!(enter("192.0.2.1").is_err() && enter("192.0.2.2").is_ok());
        drop(one);
        assert!(enter("192.0.2.1").is_ok());
        assert!((0..100).all(|_| enter("10.1.2.3").unwrap().is_none()));
        drop(two);
        assert!(addresses.by_key().is_empty(), "closed connections leave no entry");
    }
}
