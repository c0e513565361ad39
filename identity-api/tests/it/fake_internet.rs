//! A DNS server and an HTTPS server over real sockets, as a stand-in for the internet.

use identity_api::domains::DomainSettings;
use service_kit::settings::WebhookSettings;
use service_kit::testing::{DnsRecord, TestAuthority, TestDns, TestReceiver};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Hosts with an HTTPS server.
pub(crate) const HOSTS: [&str; 5] = ["a.test", "www.a.test", "b.test", "blog.a.test", "deep.blog.a.test"];

pub(crate) struct FakeInternet {
    published: Arc<Mutex<Published>>,
    pub(crate) dns: TestDns,
    pub(crate) server: TestReceiver,
    authority: NamedTempFile,
}

#[derive(Default)]
struct Published {
    texts: HashMap<String, Vec<String>>,
    /// Pages by `host/path`.
    pages: HashMap<String, (u16, String)>,
    addresses: HashMap<String, IpAddr>,
}

impl FakeInternet {
    pub(crate) async fn new() -> Self {
        let published: Arc<Mutex<Published>> = Arc::default();
        let zone = Arc::clone(&published);
        let dns = TestDns::start(move |name| zone.lock().unwrap().records(name)).await;
        let authority = TestAuthority::new();
        let pages = Arc::clone(&published);
        let server = TestReceiver::start(authority.server_for(&HOSTS), move |mut stream| {
            let pages = Arc::clone(&pages);
            async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && head.len() < 10_000 {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => return,
                    }
                }
                let (status, body) = pages.lock().unwrap().page(&String::from_utf8_lossy(&head));
                let answer =
                    format!("HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        })
        .await;
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &authority.pem).unwrap();
        Self { published, dns, server, authority: file }
    }

    /// Returns settings of a service that uses these servers.
    pub(crate) fn settings(&self) -> (WebhookSettings, DomainSettings) {
        let port = self.server.address.port();
        let allowed: Vec<String> = HOSTS.iter().map(|host| format!("{host}:{port}")).collect();
        let outside = WebhookSettings {
            webhook_allow: allowed.join(",").parse().unwrap(),
            webhook_extra_ca: Some(self.authority.path().to_owned()),
            dns_server: Some(self.dns.address),
        };
        let domains = DomainSettings { verification_port: port, verifications_per_minute: 0, ..DomainSettings::default() };
        (outside, domains)
    }

    pub(crate) fn publish_text(&self, name: &str, text: &str) {
        self.published.lock().unwrap().texts.entry(name.to_owned()).or_default().push(text.to_owned());
    }

    pub(crate) fn publish_page(&self, place: &str, status: u16, body: &str) {
        self.published.lock().unwrap().pages.insert(place.to_owned(), (status, body.to_owned()));
    }

    /// Resolves `name` to this address instead of this machine.
    pub(crate) fn point(&self, name: &str, address: &str) {
        self.published.lock().unwrap().addresses.insert(name.to_owned(), address.parse().unwrap());
    }

    pub(crate) fn forget(&self) {
        *self.published.lock().unwrap() = Published::default();
    }
}

impl Published {
    fn records(&self, name: &str) -> Vec<DnsRecord> {
        let address = self.addresses.get(name).copied().unwrap_or(Ipv4Addr::LOCALHOST.into());
        let texts = self.texts.get(name).into_iter().flatten().cloned().map(DnsRecord::Text);
        texts.chain([DnsRecord::Address(address)]).collect()
    }

    fn page(&self, head: &str) -> (u16, String) {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        self.pages.get(&format!("{host}{path}")).cloned().unwrap_or((404, "nothing here".to_owned()))
    }
}
