//! HTTPS for a local receiver.

use crate::failure::{Failure, file_error};
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of connections waiting to be accepted.
const WAITING: usize = 16;

/// Returns an acceptor with the certificate and key of a PEM file.
pub(super) fn acceptor(file: &Path) -> Result<TlsAcceptor, Failure> {
    let text = std::fs::read(file).map_err(|error| file_error(file, &error))?;
    let unfit = |why: &dyn std::fmt::Display| Failure::Usage(format!("--tls {}: {why}", file.display()));
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|_| unfit(&"not a PEM file"))?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| unfit(&"it contains no private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| unfit(&error))?.with_no_client_auth();
    let config = config.with_single_cert(certificates, key).map_err(|error| unfit(&error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections after their TLS handshake.
pub(super) struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    _accepting: AbortOnDropHandle<()>,
}

impl TlsListener {
    pub(super) fn new(mut listener: TcpListener, address: SocketAddr, acceptor: TlsAcceptor) -> Self {
        let (done, ready) = mpsc::channel(WAITING);
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, peer) = Listener::accept(&mut listener).await;
                let (acceptor, done) = (acceptor.clone(), done.clone());
                tokio::spawn(async move {
                    if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
                        drop(done.send((stream, peer)).await);
                    }
                });
            }
        });
        Self { address, ready, _accepting: AbortOnDropHandle::new(accepting) }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}
