//! Serving a router on a listener: heads that are none refused, deadlines on heads and on the reading of answers, a cap on
//! connections in all and of one address, and a stop that ends in bounded time.
//!
//! Heads are judged here and not by the router, because not every router has the boundary.

mod framing;
mod guarded;
mod pace;

pub use pace::Pace;

use crate::client_address::{ClientAddress, ClientSettings, Peer};
use crate::http::{Malformed, Transport, refuse};
use crate::measures::common as measures;
use crate::slots::{NoSlot, Slot, Slots};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use guarded::Guarded;
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

/// From the first byte of a connection, or the end of a response, to the end of the next request head.
pub(crate) const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// What requests in progress get after a stop was asked for; hung clients are cut off then.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(8);
/// Connections at a time; more wait in the listen queue.
const MAX_CONNECTIONS: usize = 10_000;
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, such as "too many open files".
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The share of one address, and whose it is not.
    pub clients: ClientSettings,
    pub pace: Pace,
    /// What stands between them and the listener.
    pub transport: Transport,
}

impl Limits {
    /// These clients, at the usual pace, over plain HTTP.
    pub fn of(clients: &ClientSettings) -> Self {
        Self { clients: clients.clone(), ..Self::default() }
    }

    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }
}

/// Opens the listener of a setting, or says which setting to change.
pub async fn listen(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| anyhow::anyhow!("{setting}={address}: cannot listen ({error}); choose a free address"))
}

/// Serves until `stop` is cancelled, then finishes what is in progress within [`DRAIN_DEADLINE`].
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
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
                TokioIo::new(Guarded::new(stream, limits.pace)),
                hyper::service::service_fn(move |request| answer(&service, request, peer, limits.transport)),
            );
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            // A connection that breaks is the client's matter; its request was counted by the boundary.
            let _ = watched.await;
            drop(places);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_DEADLINE, graceful.shutdown()).await.is_err() {
        tracing::warn!("cut off clients that did not finish in time");
    }
}

/// What the router answers, or the refusal of a head that is none.
fn answer(
    service: &TowerToHyperService<Router>,
    mut request: hyper::Request<Incoming>,
    peer: IpAddr,
    transport: Transport,
) -> impl Future<Output = Result<Response, Infallible>> + use<> {
    let answer = match Malformed::find(&request) {
        Some(malformed) => Err(refuse(&request, malformed, transport)),
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

/// The next connection that may be one, with its places among all and among those of its address.
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
                Err(_) => measures::cut(measures::ADDRESS_SHARE),
            },
            Err(error) => {
                tracing::warn!("accepting a connection failed: {error}");
                tokio::time::sleep(ACCEPT_BACK_OFF).await;
            }
        }
    }
}

/// A connection's place among those of its address; none of a trusted proxy, behind which stand many clients.
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
    fn a3_an_address_has_its_share_exactly_gives_it_back_and_a_trusted_proxy_has_no_limit() {
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
        assert!(addresses.by_key().is_empty(), "who has left is not remembered");
    }
}
