//! D3: repeated, reordered and interrupted deliveries from overlapping jobs produce the same events.

use super::{BOT, PERSON, line, send_log};
use crate::harness::{Gateway, TestApp};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use schemas::identity::OrgType;
use service_kit::testing::random_seed;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;

/// Returns lines from bots and people, some with a correlation id, some without a request id, and some that returned no content.
fn lines(random: &mut StdRng) -> Vec<String> {
    (0..random.random_range(20..200))
        .map(|n| {
            let user_agent = if random.random_range(0..3) == 0 { BOT } else { PERSON };
            let mut line: serde_json::Value =
                serde_json::from_str(&line("a.test", &format!("/{n}"), user_agent, "203.0.113.9", &format!("ray-{n}"))).unwrap();
            match random.random_range(0..3) {
                0 => line["RequestHeaders"] = serde_json::json!({"content-telemetry-id": uuid::Uuid::from_u128(n + 1)}),
                1 => drop(line.as_object_mut().unwrap().remove("RayID")),
                _ => {}
            }
            if random.random_range(0..3) == 0 {
                line["EdgeResponseStatus"] = [304, 404][random.random_range(0..2)].into();
            }
            line.to_string()
        })
        .collect()
}

/// Returns the events and failed fetches in the log, by key.
async fn counted(gateway: &TestApp) -> BTreeMap<u128, String> {
    let mut counted = BTreeMap::new();
    for record in gateway.log.all_records().await {
        let events = record.events.iter().map(|event| (event.own_key, serde_json::to_string(event)));
        let failed = record.failed_fetches.iter().map(|fetch| (fetch.own_key, serde_json::to_string(fetch)));
        for (key, text) in events.chain(failed) {
            let text = text.unwrap();
            let before = counted.insert(key.0, text.clone());
            assert!(before.is_none_or(|before| before == text), "a repeat has other content");
        }
    }
    counted
}

/// Sends the first `end` bytes of a body and disconnects.
fn cut_off(gateway: &TestApp, key: &str, body: &[u8], end: usize) {
    let address = gateway.server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /drains/cloudflare HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // After an early rejection, the gateway doesn't read the rest.
    drop(stream.write_all(&body[..end]));
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_events_do_not_depend_on_delivery() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let mut lines = lines(&mut random);
    let whole = lines.join("\n");
    // Interrupt deliveries first, before any line is stored.
    for _ in 0..10 {
        cut_off(&gateway, &key, whole.as_bytes(), random.random_range(0..whole.len()));
    }
    let taken = send_log(&gateway, "cloudflare", &key, whole.clone()).await;
    assert_eq!(taken.status, 200, "seed {seed}: {}", taken.body);
    let count = |name: &str| usize::try_from(taken.body[name].as_u64().unwrap()).unwrap();
    let kept = count("kept") + count("refused");
    for _ in 0..5 {
        lines.shuffle(&mut random);
        let from = random.random_range(0..lines.len());
        assert_eq!(send_log(&gateway, "cloudflare", &key, lines[from..].join("\n")).await.status, 200);
    }
    let elsewhere = Gateway::beside(&gateway).await;
    assert_eq!(send_log(&elsewhere, "cloudflare", &key, whole).await.status, 200);
    assert_eq!(counted(&gateway).await.len(), kept, "seed {seed}");
}
