//! TLS in front of docker-compose.yml: a real Caddy with the container's configuration and a certificate from its own authority.

use super::{compose_file::read, free_address};
use axum::Router;
use axum::http::HeaderMap;
use service_kit::testing::{TestProcess, TestServer, eventually};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

#[tokio::test(flavor = "multi_thread")]
async fn caddy_replaces_forwarded_addresses() {
    let echo = async |headers: HeaderMap| format!("{:?}", headers.get_all("x-forwarded-for").iter().collect::<Vec<_>>());
    let upstream = TestServer::start(Router::new().fallback(echo)).await;
    let (folder, address) = (tempfile::tempdir().expect("a folder is created"), free_address());
    let configuration = read("infra/front/Caddyfile");
    assert_eq!(configuration.matches("front:8080").count(), 1);
    // Without the global options, Caddy would add its authority to the machine's and listen on port 80.
    let options = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n";
    let configuration = options.to_owned() + &configuration.replace("front:8080", upstream.url.trim_start_matches("http://"));
    let file = folder.path().join("Caddyfile");
    std::fs::write(&file, configuration).expect("the file is written");
    let program = tokio::task::spawn_blocking(local::test_programs::caddy).await.expect("fetching does not panic");
    let program = program.unwrap_or_else(|error| panic!("{error:#}"));
    let (file, home) = (file.display().to_string(), folder.path().display().to_string());
    let domain = format!("localhost:{}", address.port());
    let settings = [("TELEMETRY_DOMAIN", domain.as_str()), ("XDG_DATA_HOME", &home), ("XDG_CONFIG_HOME", &home)];
    let caddy = TestProcess::start(&program, &["run", "--adapter", "caddyfile", "--config", &file], &settings);

    let authority = folder.path().join("caddy/pki/authorities/local/root.crt");
    let response = eventually("Caddy responds over HTTPS", async || get(address.port(), &authority).await).await;
    let response = response.to_ascii_lowercase();
    assert!(response.starts_with("http/1.1 200"), "{response} {}", caddy.stderr());
    assert!(response.contains("strict-transport-security: max-age=31536000"), "{response}");
    assert!(response.contains("[\"127.0.0.1\"]"), "the client's own value must not be forwarded: {response}");
}

/// Sends a request with a forged X-Forwarded-For. Returns `None` if Caddy isn't ready.
async fn get(port: u16, authority: &Path) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).ok()?).ok()?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let name = ServerName::try_from("localhost").ok()?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let request =
        format!("GET /events HTTP/1.1\r\nhost: localhost:{port}\r\nx-forwarded-for: 203.0.113.7\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = Vec::new();
    // Caddy may close the connection without a TLS close notification.
    let _ = stream.read_to_end(&mut response).await;
    (!response.is_empty()).then(|| String::from_utf8_lossy(&response).into_owned())
}
