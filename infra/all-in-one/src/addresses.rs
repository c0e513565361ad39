//! Where the all-in-one listens: where it is told to, else at the usual place, else at a free port.

use service_kit::server;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

const USUAL_PORT: u16 = 8080;
const USUAL_METRICS_PORT: u16 = 9464;

/// The listener of every surface.
pub(crate) async fn listen(asked: Option<SocketAddr>) -> anyhow::Result<TcpListener> {
    match asked {
        Some(address) => server::listen(address, "TELEMETRY_LISTEN").await,
        None => Ok(usual_or_free(USUAL_PORT).await?),
    }
}

/// The address of the metrics; its listener is opened by the exporter. Port 0 is settled here, because the first
/// screen and `demo.env` name the port.
pub(crate) async fn metrics(asked: Option<SocketAddr>) -> anyhow::Result<SocketAddr> {
    match asked {
        Some(address) if address.port() == 0 => Ok(server::listen(address, "TELEMETRY_METRICS_LISTEN").await?.local_addr()?),
        Some(address) => Ok(address),
        None => Ok(usual_or_free(USUAL_METRICS_PORT).await?.local_addr()?),
    }
}

async fn usual_or_free(usual: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, usual)).await {
        Err(error) if error.kind() == ErrorKind::AddrInUse => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_left_to_its_owner() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        let holder = TcpListener::bind(taken).await.unwrap();
        let other = usual_or_free(taken.port()).await.unwrap();
        assert_ne!(other.local_addr().unwrap().port(), taken.port());
        assert!(listen(Some(taken)).await.is_err(), "an address asked for by name is not replaced");
        drop(holder);
    }
}
