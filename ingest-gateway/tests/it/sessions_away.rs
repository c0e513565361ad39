//! Sessions that only events named, while PostgreSQL is away and the gateway dies: they are there when both are back.

use crate::harness::{retrieval, with};
use crate::outage_harness::process_settings;
use local::private::Postgres;
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::settings::PostgresSettings;
use service_kit::testing::{Seed, TestProcess, TestStores, client, eventually};
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

    let (_gateway, _) = start().await;
    for session in &away {
        let told = eventually("the session is there", || known(*session)).await;
        assert_eq!(told, (Some(1), Some("https://a.test/manifest".to_owned()), Some("bot".to_owned())));
    }
    let kept = folder.path().join("spill/sessions.seen");
    eventually("nothing is kept any more", || async { (std::fs::metadata(&kept).unwrap().len() == 0).then_some(()) }).await;
}
