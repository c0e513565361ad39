//! A12: ambiguous requests (request smuggling), byte by byte over real sockets, on both kinds of listeners.

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use service_kit::http::with_request_middleware;
use service_kit::observability::exposition;
use service_kit::testing::{TestServer, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Starts a service with the request middleware, and the metrics listener without it. Both have the same two paths.
async fn listeners() -> [TestServer; 2] {
    let paths = || {
        let echo = post(|body: Bytes| async { body });
        Router::new().route("/hello", get(|| async { "hello" })).route("/echo", echo)
    };
    let metrics = exposition(|| "metric 1\n".to_owned()).merge(paths());
    [TestServer::start(with_request_middleware(paths())).await, TestServer::start(metrics).await]
}

/// Sends bytes in pieces of `size`, and returns the complete response.
async fn exchange(server: &TestServer, bytes: &[u8], size: usize) -> String {
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for piece in bytes.chunks(size) {
        // Send everything even after an error, because a reset would lose the response.
        stream.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn statuses(answer: &str) -> Vec<&str> {
    answer.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}

const SIZES: &[usize] = &[1, 7, 1_000];
const GOOD: &str = "GET /hello HTTP/1.1\r\nhost: a\r\n\r\n";

/// Returns requests that get a 400, each with the piece sizes to use. A head that is rejected as a whole gets its response immediately,
/// which leaves no time for more pieces.
fn refused() -> Vec<(String, &'static [usize])> {
    let mut refused: Vec<(String, &'static [usize])> = [
        "GET /hello HTTP/1.1\nhost: a\r\n\r\n",
        "GET /hello HTTP/1.1\r\nhost: a\n\r\n",
        "GET /hello HTTP/1.1\r\nhost: a\r\n\n",
        "GET /hello HTTP/1.1\nhost: a\n\n",
        "GET /hello HTTP/1.1\r\nhost: a\r\nx: a\ntransfer-encoding: chunked\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\n\r\nhello",
        "\nGET /hello HTTP/1.1\r\nhost: a\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET /hello\r\nhost: a\r\n\r\n",
        "GET /hello HTTP/2.0\r\nhost: a\r\n\r\n",
        "GET /<hello> HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /hello HTTP/1.1\r\nhost: a\r\n folded\r\n\r\n",
        "GET /hello HTTP/1.1\r\nhost : a\r\n\r\n",
        "GET /hello HTTP/1.1\r\nhost: a\r\nx: \0\r\n\r\n",
        "POST /echo HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ]
    .map(|head| (head.to_owned(), SIZES))
    .into();
    for fields in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "Content-Length: 48\r\nTransfer-Encoding: chunked",
        "content-length: 0\r\ntransfer-encoding: gzip, chunked",
        "content-length: x\r\ntransfer-encoding: chunked",
        "content-length: -1",
        "content-length: 18446744073709551615",
        "content-length: 1\r\ncontent-length: 2",
        "transfer-encoding: gzip",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
    ] {
        refused.push((format!("POST /echo HTTP/1.1\r\nhost: a\r\n{fields}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), SIZES));
    }
    for hosts in [
        "",
        "host: a\r\nhost: a\r\n",
        "host: a\r\nHost: b\r\n",
        "host: \r\n",
        "host: a/b\r\n",
        "host: a b\r\n",
        "host: a%2etest\r\n",
        "host: ａ.test\r\n",
        "host: \"a\"\r\n",
        "host: *\r\n",
        "host: .a\r\n",
        "host: 127.1\r\n",
    ] {
        refused.push((format!("GET /hello HTTP/1.1\r\n{hosts}\r\n"), &SIZES[2..]));
    }
    refused
}

#[tokio::test]
async fn rejects_ambiguous_requests_and_disconnects() {
    for server in &listeners().await {
        for (bad, sizes) in refused() {
            let answer = exchange(server, format!("{bad}{GOOD}").as_bytes(), 1_000).await;
            assert_eq!(statuses(&answer), ["400"], "{bad:?}: {answer}");
            assert!(answer.contains("application/problem+json") && answer.contains("invalid_parameter"), "{bad:?}: {answer}");
            assert!(answer.contains("x-request-id") && answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
            // The same requests after valid ones on the same connection.
            let later = format!("{GOOD}POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n\n\n{bad}{GOOD}");
            for size in sizes {
                assert_eq!(statuses(&exchange(server, later.as_bytes(), *size).await), ["200", "200", "400"], "{bad:?}");
            }
        }
        let old = exchange(server, b"GET /hello HTTP/1.0\r\n\r\n", 1_000).await;
        assert!(old.starts_with("HTTP/1.0 200 "), "HTTP/1.0 doesn't require Host: {old}");
    }
}

/// The response to the previous request shows that the server has read the first segment. The client sends nothing more.
#[tokio::test]
async fn rejects_malformed_heads_split_across_segments() {
    for server in &listeners().await {
        for (first, second) in [
            ("GET /hello HTTP/1.1\r\nho", "st: a\n"),
            ("GET /hello HTTP/1.1\r\nhost: a\r\nx: y", "\nz: y\r\n"),
            ("GET /hello HTTP/1.1\r\nhost: a\r\nx: y\r", "z"),
            ("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-enc", "oding: chunked\r\n\r\n"),
            ("GET /hello HTTP/1.1\r\nhost", ": a%2etest\r\n\r\n"),
        ] {
            let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
            stream.write_all(format!("GET /hello HTTP/1.1\r\nhost: a\r\n\r\n{first}").as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\nhello") {
                assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "{first:?}");
            }
            stream.write_all(second.as_bytes()).await.unwrap();
            let _ = stream.read_to_end(&mut answer).await;
            let answer = String::from_utf8_lossy(&answer);
            assert_eq!(statuses(&answer), ["200", "400"], "{first:?} {second:?}: {answer}");
        }
    }
}

/// Large heads arrive in several reads.
#[tokio::test]
async fn finds_bare_line_feeds_in_large_heads() {
    for server in &listeners().await {
        for kib in [1, 60, 63, 64, 65, 70, 100, 120, 200] {
            let bad = format!("GET /hello HTTP/1.1\r\nhost: a\r\nx: {}\ny: z\r\n\r\n", "x".repeat(kib * 1024));
            for size in [50_000, 1_000_000] {
                let answer = exchange(server, bad.as_bytes(), size).await;
                assert!(statuses(&answer).iter().all(|status| ["400", "431"].contains(status)), "{kib} KiB: {answer}");
            }
        }
    }
}

/// Oversized heads end at the limit, so that unread bytes don't reset the connection.
#[tokio::test]
async fn head_limits_are_exact() {
    let of_bytes = |bytes: usize| format!("GET /hello HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(bytes - 37));
    let of_fields = |fields: usize| format!("GET /hello HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(fields - 1));
    assert_eq!((of_bytes(65_536).len(), of_fields(100).matches(':').count()), (65_536, 100));
    for server in &listeners().await {
        for size in [1_000, 1_000_000] {
            for taken in [of_bytes(65_536), of_fields(100)] {
                assert_eq!(statuses(&exchange(server, taken.as_bytes(), size).await), ["200"]);
            }
            for refused in [of_bytes(65_537), of_fields(101)] {
                let answer = exchange(server, refused.as_bytes(), size).await;
                assert_eq!(statuses(&answer), ["431"], "{answer}");
                for told in ["application/problem+json", "head_too_large", "x-request-id: ", "x-content-type-options: nosniff"] {
                    assert!(answer.contains(told), "{told}: {answer}");
                }
                assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
            }
        }
    }
}

#[tokio::test]
async fn bodies_can_contain_any_bytes() {
    for server in &listeners().await {
        let body = "\n\r\n\n{\"a\":\n1}\r\nGET /hello HTTP/1.1\nhost: x\n\n";
        let sized = format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let chunked = format!(
            "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{:x};x=1\r\n{body}\r\n1\r\n\n\r\n0\r\nx-trailer: 1\r\n\r\n",
            body.len()
        );
        for size in [1, 7, 10_000] {
            let answer = exchange(server, format!("{sized}{chunked}{GOOD}\r\n{sized}{GOOD}").as_bytes(), size).await;
            let echoed = answer.matches(body).count();
            assert_eq!(answer.matches("\r\n\r\nhello").count(), 2, "{size}: {answer}");
            assert_eq!(echoed, 3, "{size}: {answer}");
        }
    }
}

#[tokio::test]
async fn closes_rejected_requests_within_seconds() {
    for server in listeners().await {
        let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
        stream.write_all(b"POST /unknown HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(statuses(&answer), ["404"]);
        eventually("the connection is reset", async || {
            let wrote = stream.try_write(b"1");
            wrote.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock).then_some(())
        })
        .await;
    }
}

/// 413, 415, 401 and 404 are sent after the head, while proxies and clients that write before they read are still sending the body.
#[tokio::test]
async fn delivers_responses_sent_before_the_body() {
    const BODY: usize = 1024 * 1024;
    for server in listeners().await {
        for framing in [format!("content-length: {BODY}"), "transfer-encoding: chunked".to_owned()] {
            let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
            stream.write_all(format!("POST /unknown HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_eq!(statuses(&answer), ["404"], "{framing}: complete while the server waits for the body");
            stream.write_all(&[b'1'; BODY]).await.unwrap_or_else(|error| panic!("{framing}: {error}"));
            stream.shutdown().await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "{framing}");
        }
    }
}
