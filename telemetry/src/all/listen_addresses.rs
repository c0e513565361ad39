//! Chooses the listening addresses: the configured address, otherwise the default port, otherwise a free port.

use service_kit::server;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

const DEFAULT_PORT: u16 = 8080;
const DEFAULT_METRICS_PORT: u16 = 9464;

pub(crate) async fn listen(asked: Option<SocketAddr>) -> anyhow::Result<TcpListener> {
    match asked {
        Some(address) => server::listen(address, "TELEMETRY_LISTEN").await,
        None => Ok(bind_default_or_free(DEFAULT_PORT).await?),
    }
}

/// Returns the metrics address. The exporter opens the listener. Port 0 is replaced with a real port, because the welcome screen and
/// `demo.env` contain the port.
pub(crate) async fn metrics(asked: Option<SocketAddr>) -> anyhow::Result<SocketAddr> {
    match asked {
        Some(address) if address.port() == 0 => Ok(server::listen(address, "TELEMETRY_METRICS_LISTEN").await?.local_addr()?),
        Some(address) => Ok(address),
        None => Ok(bind_default_or_free(DEFAULT_METRICS_PORT).await?.local_addr()?),
    }
}

async fn bind_default_or_free(usual: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, usual)).await {
        Err(error) if error.kind() == ErrorKind::AddrInUse => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn uses_a_free_port_if_the_default_is_taken() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        let holder = TcpListener::bind(taken).await.unwrap();
        let other = bind_default_or_free(taken.port()).await.unwrap();
        assert_ne!(other.local_addr().unwrap().port(), taken.port());
        assert!(listen(Some(taken)).await.is_err(), "a configured address is not replaced");
        drop(holder);
    }
}
