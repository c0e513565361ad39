//! A gateway is killed during a PostgreSQL outage. Its log records contain the sessions that events named.

use crate::harness::{Gateway, retrieval, with};
use crate::outage_harness::process_settings;
use crate::postgres_outages::stores_and_database;
use ingest_gateway::Durability;
use schemas::identity::OrgType;
use schemas::ids::SessionId;
use schemas::session::{PrivacyLevel, SessionReport};
use serde_json::json;
use service_kit::testing::{Seed, TestProcess, client};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn f17_sessions_survive_a_gateway_crash_without_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let (stores, database) = stores_and_database(folder.path()).await;
    let agent = Seed(&stores.pool).org("agent", OrgType::Agent).await;

    let start = async || {
        let (settings, url) = process_settings(&stores, &stores.kafka, &folder.path().join("spill"));
        let mut child = TestProcess::service(&[], &settings);
        child.wait_until_ok(&format!("{url}/health")).await;
        (child, url)
    };
    let post = async |url: &str, session: Uuid| {
        let event = with(retrieval("https://a.test/"), json!({"session_id": session}));
        let body = json!({"privacy_level": "intent", "manifest_ref": "https://a.test/manifest", "events": [event]});
        let body = with(body, json!({"session_id": session, "agent_id": "bot"})).to_string();
        let request = client().post(format!("{url}/events")).header("content-type", "application/json");
        request.header("x-api-key", &agent.key).body(body).send().await.unwrap().status().as_u16()
    };
    let (mut gateway, url) = start().await;
    let sessions: Vec<Uuid> = (0..4).map(|_| Uuid::new_v4()).collect();
    assert_eq!(post(&url, sessions[0]).await, 201, "this caches the key");
    database.pause();
    for session in &sessions[1..] {
        assert_eq!(post(&url, *session).await, 201);
    }
    gateway.kill_9().await;
    database.resume();
    let written: i64 = sqlx::query_scalar("SELECT count(*) FROM sessions").fetch_one(&stores.pool).await.unwrap();
    assert_eq!(written, 0, "the worker stores them: stream-workers/tests/it/sessions.rs");

    let gateway = Gateway::start_on(stores.clone(), Durability::default()).await;
    let mut named: Vec<SessionReport> = Vec::new();
    for record in gateway.log.records(sessions.len()).await {
        assert_eq!(record.org, agent.id);
        named.extend(record.named_sessions);
    }
    named.sort_unstable_by_key(|report| sessions.iter().position(|session| *session == report.session_id.0));
    let expected = sessions.iter().map(|session| SessionReport {
        privacy_level: Some(PrivacyLevel::Intent),
        manifest_ref: Some("https://a.test/manifest".to_owned()),
        agent_id: Some("bot".to_owned()),
        ..SessionReport::new(SessionId(*session))
    });
    assert_eq!(named, expected.collect::<Vec<_>>());
}
