//! Sessions that only events named, while PostgreSQL is away and the gateway dies: the log has them.

use crate::database_away::gateway_and_database;
use crate::harness::{Gateway, retrieval, with};
use crate::outage_harness::process_settings;
use ingest_gateway::Durability;
use local::private::Postgres;
use schemas::identity::OrgType;
use schemas::ids::{OrgId, SessionId};
use schemas::session::{PrivacyLevel, SessionReport};
use serde_json::{Value, json};
use service_kit::settings::PostgresSettings;
use service_kit::testing::{Seed, TestProcess, TestStores, client, eventually};
use sqlx::PgPool;
use std::path::Path;
use uuid::Uuid;

/// Level, manifest and agent of a session, as PostgreSQL has them.
async fn row(pool: &PgPool, org: OrgId, session: Uuid) -> Option<(Option<i16>, Option<String>, Option<String>)> {
    let statement = "SELECT privacy_level, manifest_ref, agent_id FROM sessions WHERE organization_id = $1 AND session_id = $2";
    sqlx::query_as(statement).bind(org.0).bind(session).fetch_optional(pool).await.expect("the table answers")
}

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
    let known = async |session: Uuid| row(&stores.pool, agent.id, session).await;

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

/// The worker may be behind: until it has written what was declared, the gateway that took the declaration goes by it.
#[tokio::test(flavor = "multi_thread")]
async fn f17_what_was_declared_while_postgres_was_away_holds_at_its_gateway_as_soon_as_postgres_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, database, org, key) = away(folder.path()).await;
    let row = async |session: Uuid| row(&gateway.stores.pool, org, session).await;
    let (strict, quiet) = (Uuid::new_v4(), Uuid::new_v4());
    let declared = json!({"privacy_level": "minimal", "agent_id": "bot", "manifest_ref": "first"});
    assert_eq!(gateway.post(&key, &naming(strict, declared)).await.status, 201);
    assert_eq!(gateway.post(&key, &naming(strict, json!({"privacy_level": "full", "manifest_ref": "second"}))).await.status, 201);
    assert_eq!(gateway.post(&key, &naming(quiet, json!({"agent_id": "bot"}))).await.status, 201);
    database.resume();
    eventually("a session is written before the answer again", || async {
        let fresh = Uuid::new_v4();
        assert_eq!(gateway.post(&key, &naming(fresh, json!({}))).await.status, 201);
        row(fresh).await
    })
    .await;

    let turn = json!({"type": "turn_completed", "timestamp": "2026-11-01T10:00:00Z", "session_id": strict,
        "turn": {"privacy_level": "full", "query_text": "text-of-a-turn", "query_tokens": 3}});
    assert_eq!(gateway.post(&key, &json!({"events": [turn]})).await.status, 201);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(row(strict).await, Some((Some(0), text("first"), text("bot"))), "no worker has been there");
    let count = usize::try_from(gateway.record_count()).unwrap();
    let last = gateway.record_texts(count).await.into_iter().find(|record| record.contains("query_tokens")).unwrap();
    assert!(!last.contains("text-of-a-turn"), "the level that was declared holds: {last}");
    assert!(last.contains(r#""agent_id":"bot""#) && !last.contains("is_nameless"), "and so does the agent: {last}");
    eventually("a session that nothing names any more is written too", || row(quiet)).await;
}

/// A gateway that knows a key, beside a PostgreSQL that has just been paused.
async fn away(folder: &Path) -> (Gateway, Postgres, OrgId, String) {
    let (gateway, database) = gateway_and_database(folder).await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    let (org, key) = (agent.id, agent.key);
    assert_eq!(gateway.post(&key, &naming(Uuid::new_v4(), json!({}))).await.status, 201, "the key is known from here on");
    database.pause();
    (gateway, database, org, key)
}

/// A session that has declared the strictest level while PostgreSQL was away, which is back.
async fn declared(folder: &Path) -> (Gateway, Postgres, OrgId, String, Uuid) {
    let (gateway, database, org, key) = away(folder).await;
    let session = Uuid::new_v4();
    assert_eq!(gateway.post(&key, &naming(session, json!({"privacy_level": "minimal"}))).await.status, 201);
    database.resume();
    (gateway, database, org, key, session)
}

/// One event of the session, in an envelope that says this of it.
fn naming(session: Uuid, around: Value) -> Value {
    let event = with(retrieval("https://a.test/"), json!({"session_id": session}));
    with(json!({"session_id": session, "events": [event]}), around)
}

#[tokio::test(flavor = "multi_thread")]
async fn f17_a_quiet_gateway_writes_what_it_left_by_itself_once_postgres_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, _database, org, _, session) = declared(folder.path()).await;
    let written = eventually("nobody reports anything more", || row(&gateway.stores.pool, org, session)).await;
    assert_eq!(written, (Some(0), None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_f17_calls_of_a_session_go_by_what_it_declared_while_postgres_was_away() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, _database, _, key, session) = declared(folder.path()).await;
    let calls = [
        (
            "/sessions/bulk",
            json!({"session_id": session, "privacy_level": "full", "events": [{"type": "turn_completed",
            "timestamp": "2026-11-01T10:00:00Z", "turn": {"privacy_level": "full", "query_text": "text-of-a-turn", "query_tokens": 3}}]}),
        ),
        ("/click-tokens", json!({"session_id": session, "content_url": "https://a.test/"})),
        ("/sessions/end", json!({"session_id": session})),
    ];
    for (path, body) in calls {
        let answered = eventually("PostgreSQL has what was left", async || {
            let answered = gateway.post_to(path, &key, &body).await;
            (answered.status != 503).then_some(answered)
        });
        let answered = answered.await;
        assert!(matches!(answered.status, 200 | 201), "{path}: {}", answered.status);
    }
    let count = usize::try_from(gateway.record_count()).unwrap();
    let turn = gateway.record_texts(count).await.into_iter().find(|record| record.contains("query_tokens")).unwrap();
    assert!(!turn.contains("text-of-a-turn"), "the level that was declared holds: {turn}");
}
