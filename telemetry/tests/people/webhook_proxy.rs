//! A TLS proxy for `localhost` in front of a local receiver. Records each delivery before passing it on.

use service_kit::testing::{TestAuthority, TestReceiver};
use std::sync::{Arc, Mutex};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    head: String,
    pub(crate) body: String,
}

impl Delivery {
    pub(crate) fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(is, _)| is.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

#[derive(Default)]
struct Shared {
    /// Address to pass deliveries to. Without one, the proxy returns 204.
    next: Option<String>,
    deliveries: Vec<Delivery>,
}

pub(crate) struct WebhookProxy {
    receiver: TestReceiver,
    authority: NamedTempFile,
    shared: Arc<Mutex<Shared>>,
}

impl WebhookProxy {
    pub(crate) async fn start() -> Self {
        let (authority, file) = (TestAuthority::new(), NamedTempFile::new().unwrap());
        std::fs::write(file.path(), &authority.pem).unwrap();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let kept = Arc::clone(&shared);
        let receiver = TestReceiver::start(authority.server_for(&["localhost"]), move |mut stream| {
            let shared = Arc::clone(&kept);
            async move {
                let Some(delivery) = read(&mut stream).await else { return };
                let whole = format!("{}{}", delivery.head, delivery.body);
                let next = {
                    let mut shared = shared.lock().unwrap();
                    shared.deliveries.push(delivery);
                    shared.next.clone()
                };
                let _ = stream.write_all(&answer(next, &whole).await).await;
                let _ = stream.shutdown().await;
            }
        })
        .await;
        Self { receiver, authority: file, shared }
    }

    /// Returns the settings with which a service may call the proxy.
    pub(crate) fn settings(&self) -> [(&'static str, String); 2] {
        [
            ("WEBHOOK_ALLOW", format!("localhost:{}", self.receiver.address.port())),
            ("WEBHOOK_EXTRA_CA", self.authority.path().display().to_string()),
        ]
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.receiver.address.port())
    }

    /// From now on, passes deliveries to a receiver at `HOST:PORT`.
    pub(crate) fn forward_to(&self, address: &str) {
        self.shared.lock().unwrap().next = Some(address.to_owned());
    }

    /// From now on, responds to deliveries itself.
    pub(crate) fn respond_directly(&self) {
        self.shared.lock().unwrap().next = None;
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.shared.lock().unwrap().deliveries.clone()
    }
}

async fn read(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<Delivery> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let delivery = Delivery { head: String::from_utf8(head).unwrap(), body: String::new() };
    let mut body = vec![0; delivery.header("content-length").parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some(Delivery { body: String::from_utf8(body).unwrap(), ..delivery })
}

/// Returns the next receiver's response to the same bytes.
async fn answer(next: Option<String>, whole: &str) -> Vec<u8> {
    let Some(next) = next else { return b"HTTP/1.1 204 No Content\r\n\r\n".to_vec() };
    let mut stream = TcpStream::connect(next).await.unwrap();
    stream.write_all(whole.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    head
}
