//! Threats to sessions (SE2, SE3, SE5, SE7, SE8, SE10) not covered by `sessions`.

use crate::harness::{Gateway, event, with};
use crate::outage_harness::process_settings;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::{Seed, TestProcess, TestResponse, TestStores, client, send_request};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use uuid::Uuid;

async fn post(url: &str, path: &str, key: &str, body: &Value) -> TestResponse {
    let request = client().post(format!("{url}{path}")).header("x-api-key", key).header("content-type", "application/json");
    send_request(request.body(body.to_string())).await
}

fn cited(id: &str) -> Value {
    event("content_cited", json!({"id": id}))
}

#[tokio::test]
async fn se2_manifests_are_not_fetched() {
    let (gateway, key) = Gateway::with_agent().await;
    let canary = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = canary.local_addr().unwrap().port();
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    let listening = tokio::spawn(async move {
        while canary.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::ffff:127.0.0.1]:{port}")] {
        let manifest = format!("https://{host}/.well-known/content-telemetry.json");
        let started = gateway.post(&key, "/sessions/start", &json!({"manifest_ref": manifest})).await;
        assert!(matches!(started.status, 201 | 422), "{manifest}: {}", started.body);
        let uploaded = json!({"session_id": Uuid::new_v4(), "manifest_ref": manifest, "events": [cited("e")]});
        let uploaded = gateway.post(&key, "/sessions/bulk", &uploaded).await;
        assert_eq!(uploaded.status, started.status, "{}", uploaded.body);
    }
    // Any fetch would have happened during these requests and the connection below.
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    service_kit::testing::eventually("the canary counts", || async { (hits.load(Ordering::SeqCst) > 0).then_some(()) }).await;
    assert_eq!(hits.load(Ordering::SeqCst), 1, "only this test's connection");
    listening.abort();
}

#[tokio::test]
async fn se3_foreign_prior_sessions_reveal_nothing() {
    let gateway = Gateway::start().await;
    let (mine, theirs) = (gateway.seed().org("one", OrgType::Agent).await, gateway.seed().org("two", OrgType::Agent).await);
    let started = gateway.post(&theirs.key, "/sessions/start", &json!({"agent_id": "victim"})).await;
    let named = json!({"prior_session_ids": [started.body["session_id"]]});
    let unknown = json!({"prior_session_ids": [Uuid::new_v4()]});
    let (named, unknown) =
        (gateway.post(&mine.key, "/sessions/start", &named).await, gateway.post(&mine.key, "/sessions/start", &unknown).await);
    let shape =
        |answer: &TestResponse| (answer.status, answer.body.as_object().map(|body| body.keys().cloned().collect::<Vec<_>>()));
    assert_eq!((shape(&named), named.status), (shape(&unknown), 201));
    let rows: Vec<(Uuid, i64)> = sqlx::query_as("SELECT organization_id, count(*) FROM sessions GROUP BY 1 ORDER BY 2")
        .fetch_all(&gateway.stores.pool)
        .await
        .unwrap();
    assert_eq!(rows, [(theirs.id.0, 1), (mine.id.0, 2)], "the other organization has no new session");
}

#[tokio::test]
async fn se5_se7_foreign_session_ids_create_separate_sessions() {
    let gateway = Gateway::start().await;
    let (mine, theirs) = (gateway.seed().org("one", OrgType::Agent).await, gateway.seed().org("two", OrgType::Agent).await);
    let id = gateway.post(&theirs.key, "/sessions/start", &json!({"agent_id": "victim", "privacy_level": "full"})).await.body
        ["session_id"]
        .clone();
    let upload = |id: Value| {
        json!({"session_id": id, "agent_id": "thief", "privacy_level": "minimal", "events": [cited("e1")],
        "outcome": {"type": "browse"}})
    };
    let there = gateway.post(&mine.key, "/sessions/bulk", &upload(id.clone())).await;
    let nowhere = gateway.post(&mine.key, "/sessions/bulk", &upload(json!(Uuid::new_v4()))).await;
    assert_eq!((there.status, &there.body["outcome_recorded"]), (nowhere.status, &nowhere.body["outcome_recorded"]));
    assert_eq!((there.status, &there.body["outcome_recorded"]), (201, &json!(true)));
    let session: Uuid = id.as_str().unwrap().parse().unwrap();
    let row: (Option<String>, Option<i16>) =
        sqlx::query_as("SELECT agent_id, privacy_level FROM sessions WHERE session_id = $1 AND organization_id = $2")
            .bind(session)
            .bind(theirs.id.0)
            .fetch_one(&gateway.stores.pool)
            .await
            .unwrap();
    assert_eq!(row.0.as_deref(), Some("victim"), "the other session is unchanged: {row:?}");
    let ended = json!({"session_id": id, "outcome": {"type": "conversion"}});
    assert_eq!(gateway.post(&theirs.key, "/sessions/end", &ended).await.status, 200, "it has no outcome yet");
}

#[tokio::test]
async fn se8_repeated_uploads_are_the_same_events() {
    let (gateway, key) = Gateway::with_agent().await;
    let without_id = with(cited("x"), json!({"id": null}));
    let body = json!({"session_id": Uuid::new_v4(), "events": [cited("e1"), without_id], "outcome": {"type": "browse"}});
    for round in 0..20 {
        let uploaded = gateway.post(&key, "/sessions/bulk", &body).await;
        assert_eq!((uploaded.status, &uploaded.body["outcome_recorded"]), (201, &json!(true)), "{round}");
        assert_eq!(uploaded.body["events_created"], if round == 0 { 2 } else { 0 }, "{round}");
    }
    let records = gateway.log.records(20).await;
    let keys: std::collections::BTreeSet<_> =
        records.iter().flat_map(|record| &record.events).map(|event| event.own_key).collect();
    assert_eq!(keys.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn se10_started_sessions_survive_a_killed_gateway() {
    let (stores, spill) = (TestStores::with_topics().await, tempfile::tempdir().unwrap());
    let key = Seed(&stores.pool).org("agent", OrgType::Agent).await.key;
    let (settings, url) = process_settings(&stores, &stores.kafka, spill.path());
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut process = TestProcess::service(&[], &settings);
        process.wait_until_ok(&format!("{url}/health")).await;
        let started = post(&url, "/sessions/start", &key, &json!({"agent_id": "bot"})).await;
        process.kill_9().await;
        assert_eq!(started.status, 201, "{}", started.body);
        ids.push(started.body["session_id"].clone());
    }
    let mut process = TestProcess::service(&[], &settings);
    process.wait_until_ok(&format!("{url}/health")).await;
    for id in ids {
        let reported = json!({"session_id": id, "events": [cited(id.as_str().unwrap())]});
        assert_eq!(post(&url, "/events", &key, &reported).await.status, 201, "{id}");
        assert_eq!(post(&url, "/sessions/end", &key, &json!({"session_id": id})).await.status, 200, "{id} is known");
    }
}
