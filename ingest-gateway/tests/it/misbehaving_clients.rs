//! Clients that violate HTTP or its deadlines: slow, ambiguous, disconnecting (threats X1, X2, X6, X15 to X17).

use crate::harness::{Gateway, TestApp, head, open_head, retrieval, with};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum time until the server's deadlines take effect on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

async fn connect(gateway: &TestApp) -> TcpStream {
    let address = gateway.server.url.strip_prefix("http://").expect("the URL is http");
    TcpStream::connect(address).await.expect("the gateway listens")
}

/// Reads until the server closes the connection. An empty text means that there was no response.
async fn until_closed(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    assert!(closed.is_ok(), "the server did not close the connection");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn x1_x2_slow_requests_time_out_without_blocking_others() {
    let (gateway, key) = Gateway::with_agent().await;
    let mut slow = Vec::new();
    for n in 0..200 {
        let mut stream = connect(&gateway).await;
        let text = match n % 3 {
            0 => "POST /events HTTP/1.1\r\n".to_owned(),
            1 => String::new(),
            _ => head("/events", &key, 1_000) + "{",
        };
        stream.write_all(text.as_bytes()).await.unwrap();
        slow.push(async move { (n % 3, until_closed(stream).await) });
    }
    for n in 0..20 {
        let body = json!({"events": [with(retrieval("https://a.test/"), json!({"id": format!("e{n}")}))]});
        assert_eq!(gateway.report(&key, &body).await.status, 201, "others are served");
    }
    for (kind, said) in futures::future::join_all(slow).await {
        match kind {
            2 => assert!(said.starts_with("HTTP/1.1 408"), "a slow body: {said:.60}"),
            _ => assert!(!said.starts_with("HTTP/1.1 2"), "a slow head: {said:.60}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn x2_trickling_bodies_time_out() {
    let (gateway, key) = Gateway::with_agent().await;
    let mut stream = connect(&gateway).await;
    stream.write_all((head("/events", &key, 1_000) + "{").as_bytes()).await.unwrap();
    let (reading, mut writing) = stream.into_split();
    // Each part arrives in time; only the whole body is late.
    let trickle = tokio::spawn(async move {
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    let mut said = String::new();
    let mut reading = reading.take(1_000);
    let answered = tokio::time::timeout(PATIENCE, async {
        while !said.contains("\r\n") {
            let mut part = [0; 200];
            let length = reading.read(&mut part).await.unwrap_or(0);
            said.push_str(&String::from_utf8_lossy(&part[..length]));
            if length == 0 {
                break;
            }
        }
    });
    assert!(answered.await.is_ok(), "the server waits for a body that never ends");
    assert!(said.starts_with("HTTP/1.1 408"), "{said:.60}");
    trickle.abort();
}

#[tokio::test]
async fn x6_does_not_parse_the_rest_of_a_rejected_body() {
    let (gateway, key) = Gateway::with_agent().await;
    let event = json!({"events": [retrieval("https://a.test/smuggled")]}).to_string();
    let smuggled = head("/events", &key, event.len()) + &event;
    let body = smuggled.repeat(1024 * 1024 / smuggled.len() + 1);
    let mut stream = connect(&gateway).await;
    let _ = stream.write_all((head("/events", &key, body.len()) + &body).as_bytes()).await;
    let said = until_closed(stream).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 413"), "{said:.200}");
    assert!(said.matches("HTTP/1.1 ").count() <= 1, "one request, at most one response: {said:.500}");
    assert_eq!(gateway.log.record_count(), 0);
}

#[tokio::test]
async fn x16_http_2_is_not_supported() {
    let gateway = Gateway::start().await;
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    // Open and reset a stream, over and over.
    let flood = b"\0\0\x01\x01\x05\0\0\0\x01\x82\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08".repeat(1_000);
    for start in [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), b"PRI * HTTP/2.0\r\nhost: x\r\n\r\n"] {
        let mut stream = connect(&gateway).await;
        let _ = stream.write_all(&[start, settings, &flood].concat()).await;
        let said = until_closed(stream).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said:.60}");
    }
    let upgrade = "GET /events HTTP/1.1\r\nhost: x\r\nconnection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n";
    let mut stream = connect(&gateway).await;
    stream.write_all(upgrade.as_bytes()).await.unwrap();
    let said = until_closed(stream).await;
    assert!(said.starts_with("HTTP/1.1 405"), "the upgrade is ignored: {said:.60}");
}

#[tokio::test]
async fn x15_rejects_ambiguous_requests_and_disconnects() {
    let (gateway, key) = Gateway::with_agent().await;
    let event = json!({"events": [retrieval("https://a.test/smuggled")]}).to_string();
    let smuggled = head("/events", &key, event.len()) + &event;
    let head = open_head("/events", &key);
    let many_headers: String = (0..1_000).map(|n| format!("h{n}: 1\r\n")).collect();
    for (name, text) in [
        ("two different lengths", format!("{head}content-length: 5\r\ncontent-length: 6\r\n\r\n{smuggled}")),
        ("a length that is not a number", format!("{head}content-length: +5\r\n\r\n{smuggled}")),
        ("an unknown transfer coding", format!("{head}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}")),
        ("a folded header", format!("{head}x-a: 1\r\n  folded\r\ncontent-length: 0\r\n\r\n{smuggled}")),
        ("a space before the colon", format!("{head}content-length : 5\r\n\r\n{smuggled}")),
        ("a huge header", format!("{head}x-a: {}\r\n\r\n", "a".repeat(128 * 1024))),
        ("a thousand headers", format!("{head}{many_headers}\r\n")),
        ("not HTTP", "\u{16}\u{3}\u{1}\r\n\r\n".to_owned()),
    ] {
        let mut stream = connect(&gateway).await;
        // The server may close the connection during the write.
        let _ = stream.write_all(text.as_bytes()).await;
        let said = until_closed(stream).await;
        assert!(!said.contains("HTTP/1.1 2"), "{name}: {said:.200}");
    }
    assert_eq!(gateway.log.record_count(), 0, "no smuggled request reached the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn x15_content_length_with_chunks_never_splits_a_request() {
    let (gateway, key) = Gateway::with_agent().await;
    let head = open_head("/events", &key);
    let text = format!(
        "{head}content-length: 4\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n0\r\n\r\n{head}content-length: 2\r\n\r\n{{}}"
    );
    let mut stream = connect(&gateway).await;
    let _ = stream.write_all(text.as_bytes()).await;
    let said = until_closed(stream).await;
    assert!(said.matches("HTTP/1.1 ").count() <= 1, "one request, at most one response: {said}");
    assert_eq!(gateway.log.record_count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn x17_disconnects_never_store_half_a_batch() {
    const EVENTS: usize = 10;
    let (gateway, key) = Gateway::with_agent().await;
    let seed = service_kit::testing::random_seed();
    for round in 0..200_u64 {
        let events: Vec<_> =
            (0..EVENTS).map(|n| with(retrieval("https://a.test/"), json!({"id": format!("{round}-{n}")}))).collect();
        let body = json!({"events": events}).to_string();
        let text = head("/events", &key, body.len()) + &body;
        let mut stream = connect(&gateway).await;
        let draw = (seed ^ round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        let sent = if draw.is_multiple_of(3) { usize::try_from(draw).unwrap() % text.len() } else { text.len() };
        let _ = stream.write_all(&text.as_bytes()[..sent]).await;
        tokio::time::sleep(Duration::from_micros(draw % 4_000)).await;
        drop(stream);
    }
    // Send one complete request, so that the topic isn't empty.
    let whole = json!({"events": vec![retrieval("https://a.test/"); EVENTS]});
    assert_eq!(gateway.report(&key, &whole).await.status, 201);
    for record in gateway.log.all_records().await {
        assert_eq!(record.events.len(), EVENTS, "a batch is stored completely or not at all");
    }
}
