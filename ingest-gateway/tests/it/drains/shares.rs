//! A15 for drains: a sender that is slow, with all the connections it likes, keeps nobody else's log out.

use super::{BOT, line};
use crate::harness::Gateway;
use ingest_gateway::DrainSettings;
use schemas::identity::OrgType;
use service_kit::testing::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PLACES: usize = 8;

/// A request that is sent as far as its body, of which a byte follows at most; and the first status that comes back: 100 when the
/// gateway waits for the body.
async fn begun(gateway: &Gateway, key: &str) -> (TcpStream, String) {
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

#[tokio::test(flavor = "multi_thread")]
async fn a15_a_slow_sender_with_all_the_places_it_can_take_leaves_places_for_other_organisations() {
    let gateway = Gateway::start_draining(DrainSettings { drains_at_once: PLACES, ..DrainSettings::default() }).await;
    let slow = gateway.seed().org("slow", OrgType::Platform).await.key;
    let mut others = Vec::new();
    for name in ["one", "two", "three"] {
        others.push(gateway.seed().org(name, OrgType::Platform).await.key);
    }
    let mut held = Vec::new();
    for n in 0..2 * PLACES {
        let (stream, status) = begun(&gateway, &slow).await;
        assert_eq!(status, if n < PLACES / 2 { "100" } else { "503" }, "connection {n}");
        held.push(stream);
    }
    for (n, key) in others.iter().enumerate() {
        let taken = gateway.drain("cloudflare", key, line("a.test", "/", BOT, "192.0.2.1", &format!("ray-{n}"))).await;
        assert_eq!((taken.status, &taken.body["kept"]), (200, &1.into()), "{}", taken.body);
    }
    let refused = gateway.drain("cloudflare", &slow, line("a.test", "/", BOT, "192.0.2.1", "ray-9")).await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(
        refused.headers.contains_key("retry-after") && refused.body["detail"].as_str().unwrap().contains("too many log uploads")
    );
    drop(held);
    eventually("what it gives back it may take again", || async {
        let taken = gateway.drain("cloudflare", &slow, line("a.test", "/", BOT, "192.0.2.1", "ray-9")).await;
        (taken.status == 200).then_some(())
    })
    .await;
}
