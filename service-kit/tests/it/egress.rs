//! S6, V3 to V7: whatever a receiver does, an attempt ends in time, reads little and connects only to the receiver's address.

use service_kit::egress::{Egress, EgressError, EgressResponse, TlsError};
use service_kit::settings::WebhookSettings;
use service_kit::testing::{DnsRecord, TestAuthority, TestDns, TestReceiver};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::server::TlsStream;
use url::Url;

pub(crate) const CAP: usize = 64 * 1024;
/// Timeout for receivers that respond.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// Timeout for receivers that never finish.
const SHORT: Duration = Duration::from_millis(1_500);

/// A guard whose DNS server resolves every name to this machine, and a trusted authority.
pub(crate) struct Outside {
    pub(crate) authority: TestAuthority,
    dns: TestDns,
    pem: NamedTempFile,
}

impl Outside {
    pub(crate) async fn new() -> Self {
        let authority = TestAuthority::new();
        let dns = TestDns::start(|_| vec![DnsRecord::Address(Ipv4Addr::LOCALHOST.into())]).await;
        let pem = NamedTempFile::new().unwrap();
        std::fs::write(pem.path(), &authority.pem).unwrap();
        Self { authority, dns, pem }
    }

    pub(crate) fn settings(&self, allow: &str) -> WebhookSettings {
        WebhookSettings {
            webhook_allow: allow.parse().unwrap(),
            webhook_extra_ca: Some(self.pem.path().to_owned()),
            dns_server: Some(self.dns.address),
        }
    }

    async fn ask(&self, receiver: &TestReceiver, deadline: Duration) -> Result<EgressResponse, EgressError> {
        let receiver = format!("hooks.test:{}", receiver.address.port());
        let url = Url::parse(&format!("https://{receiver}/in?x=1")).unwrap();
        Egress::new(&self.settings(&receiver)).unwrap().get(&url, deadline, CAP).await
    }

    /// Reads the request, sends `bytes` and closes.
    async fn sending(&self, bytes: impl Into<Vec<u8>>) -> TestReceiver {
        let bytes: Arc<Vec<u8>> = Arc::new(bytes.into());
        TestReceiver::start(self.authority.server_for(&["hooks.test"]), move |mut stream| {
            let bytes = Arc::clone(&bytes);
            async move {
                request(&mut stream).await;
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    /// Reads the request, sends `first`, then repeats `again` with a pause. Counts the bytes that could be sent.
    async fn repeating(&self, first: &'static str, again: &'static [u8], pause: Duration) -> (TestReceiver, Arc<AtomicUsize>) {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let receiver = TestReceiver::start(self.authority.server_for(&["hooks.test"]), move |mut stream| {
            let counted = Arc::clone(&counted);
            async move {
                request(&mut stream).await;
                let _ = stream.write_all(first.as_bytes()).await;
                while stream.write_all(again).await.is_ok() && stream.flush().await.is_ok() {
                    counted.fetch_add(again.len(), Ordering::Relaxed);
                    tokio::time::sleep(pause).await;
                }
            }
        })
        .await;
        (receiver, sent)
    }
}

pub(crate) async fn request(stream: &mut TlsStream<TcpStream>) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn returns_the_whole_response() {
    let (outside, heard) = (Outside::new().await, Arc::new(std::sync::Mutex::new(String::new())));
    let kept = Arc::clone(&heard);
    let receiver = TestReceiver::start(outside.authority.server_for(&["hooks.test"]), move |mut stream| {
        let kept = Arc::clone(&kept);
        async move {
            *kept.lock().unwrap() = request(&mut stream).await;
            stream.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    })
    .await;
    let answer = outside.ask(&receiver, LONG).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice(), answer.is_truncated), (201, &b"ok"[..], false));
    assert_eq!(answer.headers["content-length"], "2");
    let heard = heard.lock().unwrap().clone();
    assert!(heard.starts_with("GET /in?x=1 HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains(&format!("host: hooks.test:{}\r\n", receiver.address.port())), "{heard}");
    assert!(heard.contains("accept-encoding: identity\r\n"), "{heard}");
}

#[tokio::test]
async fn v4_does_not_follow_redirects() {
    let (outside, canary) = (Outside::new().await, TestReceiver::canary().await);
    for status in [301, 302, 303, 307, 308] {
        let target = format!("https://{}/", canary.address);
        let head = format!(
            "HTTP/1.1 {status} Moved\r\nlocation: {target}\r\nrefresh: 0; url={target}\r\nalt-svc: h2=\":{}\"\r\ncontent-length: 0\r\n\r\n",
            canary.address.port()
        );
        let receiver = outside.sending(head).await;
        assert_eq!(outside.ask(&receiver, LONG).await.map(|answer| answer.status), Ok(status));
        assert_eq!(receiver.connects(), 1, "one attempt uses one connection");
    }
    assert_eq!(canary.connects(), 0);
}

/// Each of these receivers would continue forever or for a gigabyte.
#[tokio::test]
async fn s6_v5_slow_and_endless_receivers_time_out() {
    let outside = Outside::new().await;
    let none = Duration::ZERO;
    let tick = Duration::from_millis(50);
    let ok = "HTTP/1.1 200 OK\r\n";
    let zeros: &[u8] = &[0; 16 * 1024];
    let hints: &[u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(500).leak();
    for (name, first, again, pause, expected) in [
        ("slow head", "HTTP/1.1 200 OK\r\nx: ", &b"y"[..], tick, Err(EgressError::Timeout)),
        ("silence", "", b"", tick, Err(EgressError::Timeout)),
        ("interim answers", "", b"HTTP/1.1 103 Early Hints\r\n\r\n", tick, Err(EgressError::Timeout)),
        ("interim responses at full speed", "", hints, none, Err(EgressError::Unreachable)),
        ("slow body", "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", b"y", tick, Err(EgressError::Timeout)),
        ("slow chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\ny\r\n", tick, Err(EgressError::Timeout)),
        ("endless body", "HTTP/1.1 200 OK\r\n\r\n", zeros, none, Ok(CAP)),
        ("1 GiB", "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n", zeros, none, Ok(CAP)),
        ("gzip forever", "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n\x1f", zeros, none, Ok(CAP)),
    ] {
        assert!(first.is_empty() || first.starts_with(ok));
        let (receiver, sent) = outside.repeating(first, again, pause).await;
        let deadline = if expected.is_ok() { LONG } else { SHORT };
        // These receivers never finish, so an attempt without a deadline runs into this timeout.
        let outcome = tokio::time::timeout(2 * LONG, outside.ask(&receiver, deadline)).await.expect(name);
        assert_eq!(outcome.as_ref().map(|answer| answer.body.len()).map_err(|failure| *failure), expected, "{name}");
        assert!(outcome.is_err() || outcome.unwrap().is_truncated, "{name}");
        // The limit covers the buffers of both ends.
        assert!(sent.load(Ordering::Relaxed) < 64 * 1024 * 1024, "{name}: {} bytes", sent.load(Ordering::Relaxed));
    }
}

#[tokio::test]
async fn does_not_decompress_bodies() {
    let outside = Outside::new().await;
    let packed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b, 4, 0, 0x43, 0xbe, 0xb7, 0xe8, 1, 0, 0, 0];
    let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 21\r\n\r\n".to_vec();
    bytes.extend(packed);
    let receiver = outside.sending(bytes).await;
    assert_eq!(outside.ask(&receiver, LONG).await.unwrap().body, packed);
}

#[tokio::test]
async fn v7_rejects_invalid_certificates() {
    let outside = Outside::new().await;
    let stranger = TestAuthority::new();
    let refused = |fault| Err(EgressError::Tls(fault));
    for (name, config, expected) in [
        ("good", outside.authority.server_for(&["hooks.test"]), Ok(200)),
        ("expired", outside.authority.expired_server_for(&["hooks.test"]), refused(TlsError::Expired)),
        ("early", outside.authority.early_server_for(&["hooks.test"]), refused(TlsError::NotYetValid)),
        ("self-signed", TestAuthority::self_signed_server_for(&["hooks.test"]), refused(TlsError::UnknownAuthority)),
        ("wrong host", outside.authority.server_for(&["other.test", "127.0.0.1"]), refused(TlsError::OtherName)),
        ("unknown authority", stranger.server_for(&["hooks.test"]), refused(TlsError::UnknownAuthority)),
        ("authority", outside.authority.authority_as_server_for(&["hooks.test"]), refused(TlsError::AuthorityAsServer)),
    ] {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let receiver = TestReceiver::start(config, move |mut stream| {
            let counted = Arc::clone(&counted);
            async move {
                if !request(&mut stream).await.is_empty() {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
        })
        .await;
        assert_eq!(outside.ask(&receiver, LONG).await.map(|answer| answer.status), expected, "{name}");
        assert_eq!(requests.load(Ordering::Relaxed), usize::from(expected.is_ok()), "{name}: data was sent before TLS");
    }
}

#[tokio::test]
async fn distinguishes_protocol_errors_from_refused_connections() {
    let outside = Outside::new().await;
    for garbage in ["SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(), format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200_000))] {
        let receiver = outside.sending(garbage).await;
        assert_eq!(outside.ask(&receiver, LONG).await, Err(EgressError::Protocol));
    }
    let closed = outside.sending("").await;
    assert_eq!(outside.ask(&closed, LONG).await, Err(EgressError::Unreachable));
    // Bound but not listening: connections are refused, and no other test can get the port.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = silent.local_addr().unwrap().port();
    let url = Url::parse(&format!("https://hooks.test:{gone}/")).unwrap();
    let egress = Egress::new(&outside.settings(&format!("hooks.test:{gone}"))).unwrap();
    assert_eq!(egress.get(&url, LONG, CAP).await, Err(EgressError::Unreachable));
}

#[test]
fn rejects_files_without_an_authority() {
    let empty = NamedTempFile::new().unwrap();
    for file in [empty.path(), Path::new("/nowhere/ca.pem")] {
        let settings = WebhookSettings { webhook_extra_ca: Some(file.to_owned()), ..WebhookSettings::default() };
        let refused = Egress::new(&settings).err().unwrap();
        assert!(format!("{refused:#}").starts_with("WEBHOOK_EXTRA_CA="), "{refused:#}");
    }
}

/// Set for the child process, which runs only this test, with a proxy in its environment.
const CHILD: &str = "EGRESS_TEST_PROXY";

#[tokio::test]
async fn v3_ignores_proxies_in_the_environment() {
    let (outside, canary) = (Outside::new().await, TestReceiver::canary().await);
    let receiver = outside.sending("HTTP/1.1 204 No Content\r\n\r\n").await;
    if std::env::var_os(CHILD).is_some() {
        assert_eq!(outside.ask(&receiver, LONG).await.map(|answer| answer.status), Ok(204));
        return;
    }
    let proxy = format!("http://{}", canary.address);
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "egress::v3_ignores_proxies_in_the_environment"]).env(CHILD, "1").kill_on_drop(true);
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, &proxy);
    }
    let output = child.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the child must run this test");
    assert_eq!(canary.connects(), 0);
}

#[tokio::test]
async fn posts_the_body_unchanged_with_its_own_host_header() {
    let (outside, heard) = (Outside::new().await, Arc::new(std::sync::Mutex::new(Vec::new())));
    let kept = Arc::clone(&heard);
    let receiver = TestReceiver::start(outside.authority.server_for(&["hooks.test"]), move |mut stream| {
        let kept = Arc::clone(&kept);
        async move {
            let head = request(&mut stream).await;
            let mut body = [0; 7];
            stream.read_exact(&mut body).await.unwrap();
            *kept.lock().unwrap() = vec![head, String::from_utf8(body.to_vec()).unwrap()];
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    })
    .await;
    let host = format!("hooks.test:{}", receiver.address.port());
    let egress = Egress::new(&outside.settings(&host)).unwrap();
    let headers = [("x-svc-delivery-id", "7"), ("host", "inside.test"), ("accept-encoding", "gzip")];
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let url = Url::parse(&format!("https://{host}/in")).unwrap();
    let answer = egress.post(&url, headers.into_iter().collect(), "{\"a\":1}".into(), LONG, CAP).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    let heard = heard.lock().unwrap().clone();
    let (head, body) = (&heard[0], &heard[1]);
    assert_eq!(body, "{\"a\":1}");
    assert!(head.starts_with("POST /in HTTP/1.1\r\n") && head.contains("x-svc-delivery-id: 7\r\n"), "{head}");
    assert!(head.contains("content-length: 7\r\n") && head.contains(&format!("host: {host}\r\n")), "{head}");
    assert!(!head.contains("inside.test") && !head.contains("gzip"), "{head}");
}
