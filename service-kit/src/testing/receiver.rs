//! HTTPS servers for one test, with their own certificate authority and valid or invalid certificates.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

pub struct TestAuthority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

pub struct TestReceiver {
    pub address: SocketAddr,
    connects: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("a test uses valid names")
}

fn key() -> KeyPair {
    KeyPair::generate().expect("failed to generate a key")
}

fn server(certificate: &rcgen::Certificate, key: &KeyPair) -> Arc<ServerConfig> {
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("the provider supports the default versions").with_no_client_auth();
    Arc::new(config.with_single_cert(vec![certificate.der().clone()], private).expect("the key matches the certificate"))
}

impl TestAuthority {
    /// Creates an authority that is not trusted yet.
    #[expect(clippy::new_without_default, reason = "every call creates a new authority")]
    pub fn new() -> Self {
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // If it had the same name as its certificates, OpenSSL would treat each of them as self-signed.
        params.distinguished_name.push(DnType::CommonName, "an authority of a test");
        let key = key();
        let certificate = params.self_signed(&key).expect("failed to sign the certificate");
        Self { pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }

    pub fn server_for(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.issue(names, |_| {})
    }

    /// Returns certificate and key in PEM, for servers that read files.
    pub fn pem_for(&self, names: &[&str]) -> (String, String) {
        let key = key();
        (params(names).signed_by(&key, &self.issuer).expect("failed to sign the certificate").pem(), key.serialize_pem())
    }

    /// Like [`server_for`](Self::server_for), with a certificate that is not valid yet.
    pub fn early_server_for(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.issue(names, |params| params.not_before = date_time_ymd(2120, 1, 1))
    }

    /// Like [`server_for`](Self::server_for), with an authority's certificate, as `openssl req -x509` creates it.
    pub fn authority_as_server_for(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.issue(names, |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))
    }

    /// Like [`server_for`](Self::server_for), with an expired certificate.
    pub fn expired_server_for(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.issue(names, |params| params.not_after = date_time_ymd(2020, 2, 1))
    }

    fn issue(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Arc<ServerConfig> {
        let (key, mut params) = (key(), params(names));
        change(&mut params);
        server(&params.signed_by(&key, &self.issuer).expect("failed to sign the certificate"), &key)
    }

    /// Like [`server_for`](Self::server_for), with a self-signed certificate.
    pub fn self_signed_server_for(names: &[&str]) -> Arc<ServerConfig> {
        let key = key();
        server(&params(names).self_signed(&key).expect("failed to sign the certificate"), &key)
    }
}

impl TestReceiver {
    /// Accepts connections and only counts them.
    pub async fn canary() -> Self {
        Self::listen(|_stream| async {}).await
    }

    /// Accepts connections and keeps them open without sending data.
    pub async fn silent() -> Self {
        Self::listen(|stream| async move {
            let _held = stream;
            std::future::pending::<()>().await;
        })
        .await
    }

    /// Passes each connection to `answer` after the TLS handshake.
    pub async fn start<F, Fut>(config: Arc<ServerConfig>, answer: F) -> Self
    where
        F: Fn(TlsStream<TcpStream>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let acceptor = TlsAcceptor::from(config);
        Self::listen(move |stream| {
            let (acceptor, answer) = (acceptor.clone(), answer.clone());
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream).await;
                }
            }
        })
        .await
    }

    async fn listen<F, Fut>(serve: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port 0 is always free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let connects = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connects);
        let serving = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                open.spawn(serve(stream));
            }
        });
        Self { address, connects, _serving: AbortOnDropHandle::new(serving) }
    }

    pub fn connects(&self) -> usize {
        self.connects.load(Ordering::Relaxed)
    }
}
