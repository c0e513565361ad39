//! A3, S15: clients that don't read their responses, over real sockets.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use service_kit::client_address::ClientSettings;
use service_kit::http::with_request_middleware;
use service_kit::observability::exposition;
use service_kit::server::{Pace, ServerLimits};
use service_kit::testing::{TestServer, client, eventually};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const PACE: Pace = Pace { window: Duration::from_millis(1_000), bytes: 16 * 1024 };
const PIECE: usize = 64 * 1024;

fn limits() -> ServerLimits {
    let clients = ClientSettings { connections_per_address: 0, ..ClientSettings::default() };
    ServerLimits { pace: PACE, ..ServerLimits::for_clients(&clients) }
}

/// A body of many pieces, which counts the existing bodies.
struct Pieces {
    left: usize,
    held: Arc<AtomicUsize>,
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(hyper::body::Frame::data(Bytes::from(vec![b'x'; PIECE])))))
    }
}

/// Serves 64 MiB. Returns the number of responses in progress.
async fn serving() -> (TestServer, Arc<AtomicUsize>) {
    let held = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&held);
    let much = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let pieces = Pieces { left: 1_024, held: Arc::clone(&counted) };
        async move { Body::new(pieces) }
    };
    (TestServer::with(limits(), with_request_middleware(Router::new().route("/much", get(much)))).await, held)
}

/// Returns a connection with a request and a small receive buffer.
async fn asked(server: &TestServer, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut stream = socket.connect(server.url.strip_prefix("http://").unwrap().parse().unwrap()).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

/// Reads until the server closes the connection. Returns whether most of the response is missing.
async fn is_cut(mut stream: TcpStream) -> bool {
    let mut read = Vec::new();
    let ended = stream.read_to_end(&mut read).await;
    ended.is_err() && read.len() < 1_024 * PIECE
}

#[tokio::test]
async fn cuts_off_clients_that_never_read() {
    let (server, held) = serving().await;
    let streams = [asked(&server, "/much").await, asked(&server, "/much").await];
    eventually("both responses start", || async { (held.load(Ordering::SeqCst) == 2).then_some(()) }).await;
    eventually("both responses are cut off", || async { (held.load(Ordering::SeqCst) == 0).then_some(()) }).await;
    for stream in streams {
        assert!(is_cut(stream).await, "the connection must be reset");
    }
}

#[tokio::test]
async fn cuts_off_clients_that_read_single_bytes() {
    let (server, held) = serving().await;
    let stream = asked(&server, "/much").await;
    eventually("the response starts", || async { (held.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    eventually("a client that reads single bytes is cut off", || async {
        let _ = stream.try_read(&mut [0]);
        (held.load(Ordering::SeqCst) == 0).then_some(())
    })
    .await;
    assert!(is_cut(stream).await);
}

/// Reads much slower than possible, but faster than required.
#[tokio::test]
async fn steady_clients_get_the_whole_response() {
    let (server, _) = serving().await;
    let mut answer = client().get(format!("{}/much", server.url)).send().await.unwrap();
    let (mut read, mut of_step) = (0, 0);
    while let Some(piece) = answer.chunk().await.unwrap() {
        read += piece.len();
        of_step += piece.len();
        if of_step > 8 * 1024 * 1024 {
            of_step = 0;
            tokio::time::sleep(PACE.window / 4).await;
        }
    }
    assert_eq!(read, 1_024 * PIECE);
}

#[tokio::test]
async fn metrics_listener_cuts_off_slow_clients() {
    let server = TestServer::with(limits(), exposition(|| "metric 1\n".repeat(4_000_000))).await;
    let answer = client().get(format!("{}/metrics", server.url)).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    assert_eq!(answer.text().await.unwrap().len(), 36_000_000);
    let stream = asked(&server, "/metrics").await;
    eventually("the connection is reset", || async {
        let wrote = stream.try_write(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n");
        wrote.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock).then_some(())
    })
    .await;
}

#[tokio::test]
async fn limits_connections_per_address_except_for_proxies() {
    let hello = || with_request_middleware(Router::new().route("/hello", get(|| async { "hello" })));
    for (trusted_proxies, expected) in [("none", 3), ("127.0.0.0/8", 10)] {
        let clients = ClientSettings {
            connections_per_address: 3,
            trusted_proxies: trusted_proxies.parse().unwrap(),
            ..ClientSettings::default()
        };
        let server = TestServer::with(ServerLimits::for_clients(&clients), hello()).await;
        let mut held = Vec::new();
        let mut answered = 0;
        for _ in 0..10 {
            let mut stream = asked(&server, "/hello").await;
            let mut first = [0; 12];
            answered += usize::from(stream.read_exact(&mut first).await.is_ok());
            held.push(stream);
        }
        assert_eq!(answered, expected, "trusting {trusted_proxies}");
        drop(held);
        let again = async || client().get(format!("{}/hello", server.url)).send().await.ok();
        eventually("freed slots are available", again).await;
    }
}
