//! Slots for drain bodies and memory for all bodies: paused senders don't occupy slots, and one tenant can't use all memory.

use super::{BOT, line, send_log};
use crate::harness::{Gateway, TestApp, head, retrieval, with};
use ingest_gateway::{DrainSettings, Limits};
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::testing::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SLOTS: usize = 8;
const KIB: usize = 1024;

/// Sends a request up to its body and at most one byte of it. Returns the first status, which is 100 if the gateway waits for the body.
async fn begun(gateway: &TestApp, key: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(gateway.server.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST /drains/cloudflare HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nexpect: 100-continue\r\ncontent-length: 1000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    let _ = stream.write_all(b"{").await;
    (stream, String::from_utf8_lossy(&status[9..]).into_owned())
}

#[tokio::test]
async fn f70_unsent_drain_bodies_do_not_occupy_a_slot() {
    let gateway = Gateway::start_draining(DrainSettings { drains_at_once: SLOTS, ..DrainSettings::default() }).await;
    let (mut keys, mut open) = (Vec::new(), Vec::new());
    for number in 0..7 {
        let key = gateway.key(&format!("slow {number}"), OrgType::Platform).await;
        for connection in 0..SLOTS {
            let (stream, status) = begun(&gateway, &key).await;
            assert_eq!(status, "100", "connection {connection} of organization {number}");
            open.push(stream);
        }
        keys.push(key);
    }
    keys.push(gateway.key("other", OrgType::Platform).await);
    for key in [&keys[0], &keys[7]] {
        let sent = send_log(&gateway, "cloudflare", key, line("a.test", "/", BOT, "192.0.2.1", "ray-1")).await;
        assert_eq!((sent.status, &sent.body["kept"]), (200, &1.into()), "{}", sent.body);
    }
}

#[tokio::test]
async fn f79_rejects_logs_above_the_budget_early() {
    // The body of `begun` is 1,000,000 bytes.
    let gateway = Gateway::start_with(Limits { unverified_bytes: 1_100_000, ..Limits::default() }).await;
    let (anyone, verified) = (gateway.key("anyone", OrgType::ContentOwner).await, gateway.seed().owner_of("a.test").await.key);
    let first = async |key| begun(&gateway, key).await.1;
    assert_eq!(first(&anyone).await, "100", "the budget suffices");
    assert_eq!(send_log(&gateway, "cloudflare", &anyone, "x\n".repeat(100_000)).await.status, 422);
    assert_eq!(first(&anyone).await, "429", "less is left");
    assert_eq!(first(&verified).await, "100", "no such budget");
}

/// Sends this many bytes of a longer body.
async fn half_sent(gateway: &TestApp, key: &str, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.server.url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(head("/events", key, 2 * bytes).as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; bytes]).await.unwrap();
    stream
}

#[tokio::test]
async fn f75_endless_bodies_leave_memory_for_others() {
    let gateway = Gateway::start_with(Limits { body_memory_bytes: 256 * KIB, ..Limits::default() }).await;
    let seed = gateway.seed();
    let (slow, twin) = (seed.org("slow", OrgType::Agent).await, seed.org("twin", OrgType::Agent).await);
    let other = seed.org("other", OrgType::Agent).await.key;
    seed.own("ann@example.com", &[slow.id, twin.id]).await;
    let body = |bytes| json!({"events": [with(retrieval("https://a.test/"), json!({"data": {"own": "x".repeat(bytes)}}))]});
    let mut open = Vec::new();
    for _ in 0..6 {
        // Three of them fit into half of the memory.
        open.push(half_sent(&gateway, &slow.key, 40 * KIB).await);
    }
    eventually("the share is used up", || async {
        let refused = gateway.report(&slow.key, &body(20 * KIB)).await;
        (refused.status == 429 && refused.headers.contains_key("retry-after")).then_some(())
    })
    .await;
    assert_eq!(gateway.report(&twin.key, &body(20 * KIB)).await.status, 429, "organizations of one person have one share");
    let handed_over = sqlx::query("UPDATE memberships SET role = 'member' WHERE organization_id = $1").bind(twin.id.0);
    handed_over.execute(&gateway.stores.pool).await.unwrap();
    seed.own("bob@example.com", &[twin.id]).await;
    eventually("an organization has the share of its new owner", || async {
        (gateway.report(&twin.key, &body(20 * KIB)).await.status == 201).then_some(())
    })
    .await;
    let log = line("a.test", &"/".repeat(20 * KIB), BOT, "192.0.2.1", "ray-1");
    let refused = send_log(&gateway, "cloudflare", &slow.key, log).await;
    assert_eq!((refused.status, refused.headers.contains_key("retry-after")), (503, true), "{}", refused.body);
    let accepted = gateway.report(&other, &body(60 * KIB)).await;
    assert_eq!(accepted.status, 201, "{}", accepted.body);
    drop(open);
    eventually("the memory is free again", || async {
        (gateway.report(&twin.key, &body(60 * KIB)).await.status == 201).then_some(())
    })
    .await;
}
