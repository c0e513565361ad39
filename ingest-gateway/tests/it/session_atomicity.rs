//! Sessions change in PostgreSQL and on the log together, even if the client disconnects (C3, X17).

use crate::harness::{Gateway, TestApp, head};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::random_seed;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use uuid::Uuid;

/// Returns a body within every limit whose record is too large: normalizing adds the agent to each event and encodes each letter of a URL
/// in six bytes.
fn too_large(session: Uuid) -> Value {
    let event = |n: usize| {
        json!({"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "agent", "id": format!("e{n}"),
            "content_url": format!("https://a.test/{}", "é".repeat(1_330))})
    };
    json!({"session_id": session, "agent_id": "a".repeat(2_000), "events": (0..1_000).map(event).collect::<Vec<_>>()})
}

#[tokio::test]
async fn c3_too_large_records_do_not_change_sessions() {
    let gateway =
        Gateway::start_with(ingest_gateway::Limits { max_wire_bytes: 4 << 20, ..ingest_gateway::Limits::default() }).await;
    let key = gateway.key("agent", OrgType::Agent).await;
    for path in ["/events", "/sessions/bulk"] {
        let session = Uuid::new_v4();
        let mut body = too_large(session);
        body["privacy_level"] = json!("minimal");
        if path == "/sessions/bulk" {
            body["outcome"] = json!({"type": "conversion"});
        }
        let refused = gateway.post(&key, path, &body).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (413, Some("too_large")), "{path}: {}", refused.body);
        let ended = gateway.post(&key, "/sessions/end", &json!({"session_id": session})).await;
        assert_eq!(ended.status, 404, "{path}: the session does not exist");
    }
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM sessions").fetch_one(&gateway.stores.pool).await.unwrap();
    assert_eq!((stored, gateway.log.record_count()), (0, 0));
}

async fn send_and_leave(gateway: &TestApp, path: &str, key: &str, body: &Value, stay: Duration) {
    let address = gateway.server.url.strip_prefix("http://").expect("an address over HTTP");
    let mut stream = TcpStream::connect(address).await.expect("the gateway accepts");
    let body = body.to_string();
    stream.write_all((head(path, key, body.len()) + &body).as_bytes()).await.expect("it is sent");
    tokio::time::sleep(stay).await;
    // The unread response resets the connection.
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn x17_disconnects_never_store_half_a_session() {
    const CALLS: usize = 150;
    let (gateway, seed) = (Gateway::start().await, random_seed());
    let key = gateway.key("agent", OrgType::Agent).await;
    let warm = gateway.post(&key, "/sessions/bulk", &json!({"session_id": Uuid::new_v4()})).await;
    assert_eq!(warm.status, 201);
    for n in 0..CALLS {
        let session = Uuid::from_u128(u128::from(seed) << 64 | n as u128 | 1 << 40);
        let body = json!({"session_id": session, "outcome": {"type": "conversion", "value_amount": n},
            "events": [{"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://a.test/"}]});
        let stay = Duration::from_micros((seed.rotate_left(u32::try_from(n % 64).unwrap()) ^ n as u64) % 12_000);
        send_and_leave(&gateway, "/sessions/bulk", &key, &body, stay).await;
    }
    // Requests in progress end within the time that the log waits.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let stored: Vec<Uuid> = sqlx::query_scalar("SELECT session_id FROM sessions").fetch_all(&gateway.stores.pool).await.unwrap();
    let logged: BTreeSet<Uuid> =
        gateway.log.all_records().await.iter().filter_map(|record| Some(record.session.as_ref()?.session_id.0)).collect();
    assert_eq!(stored.into_iter().collect::<BTreeSet<_>>(), logged, "seed {seed}");
    assert!(logged.len() > 1, "some requests arrived");
}
