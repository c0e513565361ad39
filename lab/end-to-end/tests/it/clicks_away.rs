//! A click reported while PostgreSQL is down, and again afterwards, counts as one event in the token's session.

use crate::pipeline::Pipeline;
use local::test_servers::Postgres;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::databases;
use service_kit::settings::PostgresSettings;
use service_kit::testing::{Seed, TestStores, eventually};
use tokio_util::sync::CancellationToken;

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

pub(crate) async fn on_own_postgres(folder: &std::path::Path) -> (Pipeline, Postgres) {
    let at = folder.to_owned();
    let database = tokio::task::spawn_blocking(move || Postgres::start(&at)).await.unwrap().unwrap();
    let postgres = PostgresSettings { database_url: database.url() };
    let pool = databases::postgres(&postgres).unwrap();
    databases::migrate_postgres(&pool).await.unwrap();
    (Pipeline::start_on(TestStores { postgres, pool, ..TestStores::fresh().await }).await, database)
}

fn engaged(minute: u8, token: &str, id: Option<&str>) -> Value {
    let mut event = json!({"type": "content_engaged", "timestamp": format!("2026-11-01T10:{minute:02}:00Z"),
        "content_url": "https://www.example.com/page", "ctx_token": token});
    if let Some(id) = id {
        event["id"] = json!(id);
    }
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn click_repeated_after_an_outage_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let (front, database) = on_own_postgres(folder.path()).await;
    let seed = Seed(&front.stores.pool);
    let (agent, shop) = (seed.org("agent", OrgType::Agent).await, seed.org("shop", OrgType::Platform).await);
    let session = json!({"session_id": SESSION, "agent_id": "bot"});
    assert_eq!(front.try_post("/sessions/bulk", &agent.key, &session).await.status, 201);
    let wanted = json!({"session_id": SESSION, "content_url": "https://www.example.com/page"});
    let created = front.try_post("/click-tokens", &agent.key, &wanted).await;
    let token = created.body["token"].as_str().unwrap().to_owned();
    let refused = front.try_post("/events", &shop.key, &json!({"events": [engaged(9, "ctx_never", None)]})).await;
    assert_eq!(refused.status, 422, "{refused:?}");

    let clicks = json!({"events": [engaged(1, &token, Some("e1")), engaged(2, &token, None)]});
    database.pause();
    assert_eq!(front.try_post("/events", &shop.key, &clicks).await.status, 201);
    let stop = CancellationToken::new();
    let worker = front.spawn_worker(&stop);
    database.resume();
    eventually("an unknown token is refused", || async {
        let never = json!({"events": [engaged(9, "ctx_never", None)]});
        (front.try_post("/events", &shop.key, &never).await.status == 422).then_some(())
    })
    .await;
    assert_eq!(front.try_post("/events", &shop.key, &clicks).await.status, 201);
    front.caught_up().await;
    stop.cancel();
    worker.await.unwrap().unwrap();

    let clickhouse = databases::clickhouse(&front.stores.clickhouse).unwrap();
    let rows = "SELECT [toString(at), toString(session), toString(platform), toString(organization), agent] \
        FROM reports FINAL WHERE is_issuers = 0 ORDER BY at";
    let rows: Vec<Vec<String>> = clickhouse.query(rows).fetch_all().await.unwrap();
    let row = |minute: u8| {
        let at = format!("2026-11-01 10:{minute:02}:00.000");
        vec![at, SESSION.to_owned(), agent.id.to_string(), shop.id.to_string(), "bot".to_owned()]
    };
    assert_eq!(rows, [row(1), row(2)]);
    for letter in front.log.dead_letters().await {
        assert!(letter.reason.contains("unknown or expired"), "a known token was rejected: {letter:?}");
    }
}
