//! C11 and S4 for the write routes, on real servers: PostgreSQL outages and revocations.

use crate::harness::{Gateway, TestApp, retrieval};
use ingest_gateway::Durability;
use local::test_servers::Postgres;
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use serde_json::{Value, json};
use service_kit::settings::PostgresSettings;
use service_kit::testing::{Seed, TestResponse, TestStores, eventually};
use std::time::{Duration, Instant};

fn batch(id: &str) -> Value {
    let mut event = retrieval("https://a.test/x");
    event["id"] = json!(id);
    json!({"events": [event]})
}

/// Returns stores with a private database.
pub(crate) async fn stores_and_database(folder: &std::path::Path) -> (TestStores, Postgres) {
    let mut stores = TestStores::with_topics().await;
    let folder = folder.to_owned();
    let database = tokio::task::spawn_blocking(move || Postgres::start(&folder)).await.expect("starting does not panic");
    let database = database.expect("a database starts");
    stores.postgres = PostgresSettings { database_url: database.url() };
    stores.pool = service_kit::databases::postgres(&stores.postgres).expect("the address is valid");
    service_kit::databases::migrate_postgres(&stores.pool).await.expect("the tables are created");
    (stores, database)
}

pub(crate) async fn gateway_and_database(folder: &std::path::Path) -> (TestApp, Postgres) {
    let (stores, database) = stores_and_database(folder).await;
    (Gateway::start_on(stores, Durability::default()).await, database)
}

#[tokio::test(flavor = "multi_thread")]
async fn c11_known_keys_work_without_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, database) = gateway_and_database(folder.path()).await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    let owner = gateway.seed().owner_of("a.test").await;
    let late = gateway.seed().org("late", OrgType::Agent).await;
    for (n, key) in [&agent.key, &owner.key].into_iter().enumerate() {
        assert_eq!(gateway.report(key, &batch(&format!("before-{n}"))).await.status, 201);
    }

    database.pause();
    let began = Instant::now();
    let mut round = 0;
    while began.elapsed() < Duration::from_secs(8) {
        for key in [&agent.key, &owner.key] {
            let asked = Instant::now();
            let written = gateway.report(key, &batch(&format!("during-{round}"))).await;
            assert_eq!(written.status, 201, "after {:?}: {}", began.elapsed(), written.body);
            assert!(asked.elapsed() < Duration::from_secs(3), "a request hung for {:?}", asked.elapsed());
            round += 1;
        }
    }
    let asked = Instant::now();
    let strangers: Vec<TestResponse> = vec![
        gateway.report(&late.key, &batch("late")).await,
        gateway.report(PlainApiKey::generate(OrgType::Agent).reveal(), &batch("never")).await,
    ];
    for refused in strangers {
        assert_eq!(refused.status, 503, "an unknown key gets 503 instead of 401");
        assert!(refused.headers.contains_key("retry-after"));
    }
    assert!(asked.elapsed() < Duration::from_secs(6), "two requests of at most 3 s");

    database.resume();
    eventually("the late key writes", || async { (gateway.report(&late.key, &batch("late")).await.status == 201).then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_texts_of_sessions_it_cannot_look_up() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, database) = gateway_and_database(folder.path()).await;
    let key = gateway.key("agent", OrgType::Agent).await;
    let (met, unmet) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    let turn = |session: uuid::Uuid, text: &str| {
        json!({"events": [{"type": "turn_completed", "timestamp": "2026-11-01T10:00:00Z", "session_id": session,
            "turn": {"privacy_level": "full", "query_text": text, "query_tokens": 3}}]})
    };
    assert_eq!(gateway.report(&key, &turn(met, "text-before")).await.status, 201);
    database.pause();
    assert_eq!(gateway.report(&key, &turn(met, "text-met")).await.status, 201);
    assert_eq!(gateway.report(&key, &turn(unmet, "text-unmet")).await.status, 201);
    let clicked = json!({"privacy_level": "full", "events": [{"type": "content_engaged", "timestamp": "2026-11-01T10:00:00Z",
        "ctx_token": "ctx_never-met", "content_url": "https://a.test/", "query_text": "text-clicked"}]});
    assert_eq!(gateway.report(&key, &clicked).await.status, 201);
    let mut tightened = turn(met, "text-tightened");
    tightened["privacy_level"] = json!("minimal");
    for (body, text) in [(tightened, "text-tightened"), (turn(met, "text-after"), "text-after")] {
        assert_eq!(gateway.report(&key, &body).await.status, 201, "{text}");
    }
    let log = gateway.log.record_texts(6).await.join("\n");
    database.resume();
    assert!(log.contains("text-before") && log.contains("text-met"), "the known level still applies: {log}");
    assert!(!log.contains("text-unmet"), "its session may have a stricter level: {log}");
    assert!(!log.contains("text-clicked"), "its session is unknown: {log}");
    assert!(!log.contains("text-tightened") && !log.contains("text-after"), "a stricter level applies immediately: {log}");
    assert_eq!(log.matches("query_tokens").count(), 5, "the events themselves are stored");
}

#[tokio::test]
async fn s4_revocations_reach_every_gateway_within_a_second() {
    let one = Gateway::start().await;
    let other = Gateway::beside(&one).await;
    for round in 0..5 {
        let org = Seed(&one.stores.pool).org("agent", OrgType::Agent).await;
        // Both gateways have cached the key.
        for gateway in [&one, &other] {
            assert_eq!(gateway.report(&org.key, &batch(&format!("{round}"))).await.status, 201);
        }
        one.seed().revoke_keys(org.id).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        for gateway in [&one, &other] {
            assert_eq!(gateway.report(&org.key, &batch("revoked")).await.status, 401, "round {round}");
        }
    }
}
