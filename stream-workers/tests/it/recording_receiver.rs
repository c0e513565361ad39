//! Receivers that record deliverers' requests.
//!
//! They parse requests by hand, because an HTTP library could hide faults.

use crate::delivery_fixture::{DeliveryFixture, Endpoint, HOST};
use chrono::{DateTime, Utc};
use service_kit::clock::Clock;
use service_kit::testing::{TestReceiver, eventually};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Time by this machine's clock.
    pub(crate) at: DateTime<Utc>,
}

/// A receiver that records requests.
pub(crate) struct RecordingReceiver {
    pub(crate) server: TestReceiver,
    letters: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl ReceivedRequest {
    pub(crate) fn id(&self) -> Uuid {
        self.headers["x-svc-delivery-id"].parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Reads one request; `None` if the connection ends before it is complete.
    pub(crate) async fn read(stream: &mut TlsStream<TcpStream>) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let headers: HashMap<String, String> = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        stream.read_exact(&mut body).await.ok()?;
        Some(Self { path, headers, body, at: Clock::System.now() })
    }
}

impl RecordingReceiver {
    /// Opens a receiver with a new fixture and an endpoint for it.
    pub(crate) async fn with_endpoint(
        answer: impl Fn(usize) -> Option<u16> + Clone + Send + Sync + 'static,
    ) -> (DeliveryFixture, Self, Endpoint) {
        let office = DeliveryFixture::new().await;
        let inbox = Self::open(&office, answer).await;
        let endpoint = office.endpoint(&inbox.server).await;
        (office, inbox, endpoint)
    }

    /// Responds to the n-th request, from 0, with the status that `answer` returns. Never responds if it returns `None`.
    pub(crate) async fn open(
        office: &DeliveryFixture,
        answer: impl Fn(usize) -> Option<u16> + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::open_with(office, move |number| {
            let status = answer(number);
            async move {
                match status {
                    Some(status) => status,
                    None => std::future::pending().await,
                }
            }
        })
        .await
    }

    /// Like [`open`](Self::open), with an asynchronous response.
    pub(crate) async fn open_with<F, Fut>(office: &DeliveryFixture, answer: F) -> Self
    where
        F: Fn(usize) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = u16> + Send,
    {
        let letters: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let kept = Arc::clone(&letters);
        let server = TestReceiver::start(office.authority.server_for(&[HOST]), move |mut stream| {
            let (kept, answer) = (Arc::clone(&kept), answer.clone());
            async move {
                let Some(letter) = ReceivedRequest::read(&mut stream).await else { return };
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(letter);
                    kept.len() - 1
                };
                let status = answer(number).await;
                let _ = stream.write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        })
        .await;
        office.open_port(&server);
        Self { server, letters }
    }

    /// Responds to the first `held` requests once they are released, and to others immediately.
    pub(crate) async fn held(office: &DeliveryFixture, held: usize, status: fn(usize) -> u16) -> (Self, Arc<AtomicBool>) {
        let release = Arc::new(AtomicBool::new(false));
        let released = Arc::clone(&release);
        let inbox = Self::open_with(office, move |number| {
            let released = Arc::clone(&released);
            async move {
                let is_released = || async { (number >= held || released.load(Ordering::SeqCst)).then_some(()) };
                eventually("it is released", is_released).await;
                status(number)
            }
        })
        .await;
        (inbox, release)
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.letters.lock().unwrap().clone()
    }

    pub(crate) async fn wait_for(&self, count: usize) -> Vec<ReceivedRequest> {
        eventually(&format!("{count} requests arrive"), || async {
            Some(self.requests()).filter(|letters| letters.len() >= count)
        })
        .await
    }
}
