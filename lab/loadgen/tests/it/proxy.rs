//! The chaos test's proxy disturbs open and new connections as configured.

use loadgen::chaos::proxy::{Direction, Mode, Proxy};
use local::ports::Ports;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Long enough to show that no data arrives.
const A_WHILE: Duration = Duration::from_millis(300);
/// Longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// An echo server behind a proxy.
struct ProxiedEcho {
    proxy: Proxy,
    port: u16,
}

impl ProxiedEcho {
    async fn start() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("port 0 is always free");
        let server_port = server.local_addr().expect("a bound listener has an address").port();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = server.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = connection.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        let port = Ports::default().choose(&[]).expect("there is a free port");
        Self { proxy: Proxy::start(port, server_port).await.expect("the port is free"), port }
    }

    /// Returns a connection that has already echoed data.
    async fn connect(&self) -> TcpStream {
        let mut connection = self.dial().await.expect("the proxy listens");
        connection.write_all(b"hello").await.expect("the connection is open");
        assert_eq!(heard(&mut connection, 5).await, b"hello");
        connection
    }

    async fn dial(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.port)).await
    }
}

async fn heard(connection: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut heard = vec![0; bytes];
    timeout(PATIENCE, connection.read_exact(&mut heard)).await.expect("data arrives").expect("all data arrives");
    heard
}

/// Reads until the connection ends. Returns the data and how the connection ended.
async fn to_the_end(connection: &mut TcpStream) -> (Vec<u8>, Result<(), ErrorKind>) {
    let mut heard = Vec::new();
    let ended = timeout(PATIENCE, connection.read_to_end(&mut heard)).await.expect("the connection ends");
    (heard, ended.map(drop).map_err(|error| error.kind()))
}

#[tokio::test(flavor = "multi_thread")]
async fn black_hole_delays_data_until_it_ends() {
    let behind = ProxiedEcho::start().await;
    let mut standing = behind.connect().await;
    behind.proxy.set(Mode::BlackHole);
    standing.write_all(b"held").await.unwrap();
    let mut byte = [0; 1];
    assert!(timeout(A_WHILE, standing.read(&mut byte)).await.is_err(), "no data arrives");
    behind.proxy.set(Mode::Pass);
    assert_eq!(heard(&mut standing, 4).await, b"held");
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_closes_open_and_new_connections() {
    let behind = ProxiedEcho::start().await;
    let mut standing = behind.connect().await;
    behind.proxy.set(Mode::Reset);
    assert_eq!(to_the_end(&mut standing).await, (vec![], Err(ErrorKind::ConnectionReset)));
    // The connection may be reset before `connect` returns.
    let ended = match behind.dial().await {
        Ok(mut coming) => to_the_end(&mut coming).await.1,
        Err(error) => Err(error.kind()),
    };
    assert_eq!(ended, Err(ErrorKind::ConnectionReset));
    behind.proxy.set(Mode::Pass);
    behind.connect().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_close_closes_one_direction() {
    let behind = ProxiedEcho::start().await;
    let mut standing = behind.connect().await;
    behind.proxy.set(Mode::HalfClose);
    assert_eq!(to_the_end(&mut standing).await, (vec![], Ok(())), "the server's side is closed");
    standing.write_all(b"still taken").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_forwards_a_limited_number_of_bytes() {
    let behind = ProxiedEcho::start().await;
    for (way, through) in [(Direction::ToServer, 7), (Direction::ToClient, 3)] {
        behind.proxy.set(Mode::Pass);
        let mut standing = behind.connect().await;
        behind.proxy.set(Mode::CutAfter(through, way));
        standing.write_all(b"more than that, by far").await.unwrap();
        let (heard, ended) = to_the_end(&mut standing).await;
        assert!(heard.len() as u64 <= through && ended.is_err(), "{way:?}: {heard:?} {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drops_responses() {
    let behind = ProxiedEcho::start().await;
    let mut standing = behind.connect().await;
    behind.proxy.set(Mode::DropAnswers);
    standing.write_all(b"heard and not answered").await.unwrap();
    let mut byte = [0; 1];
    assert!(timeout(A_WHILE, standing.read(&mut byte)).await.is_err(), "no response, and the connection stays open");
    behind.proxy.set(Mode::Pass);
    assert_eq!(to_the_end(&mut standing).await.0, b"", "dropped data doesn't arrive later, and the connection ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn latency_keeps_data_in_order() {
    let behind = ProxiedEcho::start().await;
    let mut standing = behind.connect().await;
    behind.proxy.set(Mode::Latency(A_WHILE));
    standing.write_all(b"first ").await.unwrap();
    let mut byte = [0; 1];
    assert!(timeout(A_WHILE / 2, standing.peek(&mut byte)).await.is_err(), "data arrives only after the delay");
    standing.write_all(b"second").await.unwrap();
    assert_eq!(heard(&mut standing, 12).await, b"first second");
}
