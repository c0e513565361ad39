//! Sessions that only events named, while PostgreSQL is away and the gateway dies: the log has them.

use crate::harness::{Gateway, retrieval, with};
use crate::outage_harness::process_settings;
use ingest_gateway::Durability;
use local::private::Postgres;
use schemas::identity::OrgType;
use schemas::ids::SessionId;
use schemas::session::{PrivacyLevel, SessionReport};
use serde_json::json;
use service_kit::settings::PostgresSettings;
use service_kit::testing::{Seed, TestProcess, TestStores, client};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn f17_a_session_acknowledged_while_postgres_was_away_outlives_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let (mut stores, path) = (TestStores::with_topics().await, folder.path().to_owned());
    let database = tokio::task::spawn_blocking(move || Postgres::start(&path)).await.unwrap().expect("a database starts");
    stores.postgres = PostgresSettings { database_url: database.url() };
    stores.pool = service_kit::stores::postgres(&stores.postgres).unwrap();
    service_kit::stores::migrate_postgres(&stores.pool).await.unwrap();
    let agent = Seed(&stores.pool).org("agent", OrgType::Agent).await;

    let start = async || {
        let (settings, url) = process_settings(&stores, &stores.kafka, &folder.path().join("spill"));
        let mut child = TestProcess::service(&[], &settings);
        child.answers(&format!("{url}/health")).await;
        (child, url)
    };
    let post = async |url: &str, session: Uuid| {
        let event = with(retrieval("https://a.test/"), json!({"session_id": session}));
        let body = json!({"privacy_level": "intent", "manifest_ref": "https://a.test/manifest", "events": [event]});
        let body = with(body, json!({"session_id": session, "agent_id": "bot"})).to_string();
        let request = client().post(format!("{url}/events")).header("content-type", "application/json");
        request.header("x-api-key", &agent.key).body(body).send().await.unwrap().status().as_u16()
    };
    let known = async |session: Uuid| {
        let statement =
            "SELECT privacy_level, manifest_ref, agent_id FROM sessions WHERE organization_id = $1 AND session_id = $2";
        let row = sqlx::query_as::<_, (Option<i16>, Option<String>, Option<String>)>(statement).bind(agent.id.0).bind(session);
        row.fetch_optional(&stores.pool).await.unwrap()
    };

    let (mut gateway, url) = start().await;
    assert_eq!(post(&url, Uuid::new_v4()).await, 201, "the key is known from here on");
    database.pause();
    let away: Vec<Uuid> = (0..3).map(|_| Uuid::new_v4()).collect();
    for session in &away {
        assert_eq!(post(&url, *session).await, 201);
    }
    gateway.kill_9().await;
    database.resume();
    for session in &away {
        assert_eq!(known(*session).await, None, "nobody has told PostgreSQL");
    }

    // A worker writes them from here: stream-workers/tests/it/unwritten_sessions.rs.
    let gateway = Gateway::start_on(stores.clone(), Durability::default()).await;
    let mut left: Vec<SessionReport> = Vec::new();
    for record in gateway.records(1 + away.len()).await {
        assert_eq!(record.org, agent.id);
        left.extend(record.unwritten_sessions);
    }
    left.sort_unstable_by_key(|report| away.iter().position(|session| *session == report.session_id.0));
    let expected = away.iter().map(|session| SessionReport {
        session_id: SessionId(*session),
        privacy_level: Some(PrivacyLevel::Intent),
        parent_session_id: None,
        started_at: None,
        manifest_ref: Some("https://a.test/manifest".to_owned()),
        agent_id: Some("bot".to_owned()),
    });
    assert_eq!(left, expected.collect::<Vec<_>>(), "what PostgreSQL had taken is not left to the worker");
}
