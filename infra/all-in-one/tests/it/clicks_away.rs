//! A click reported while PostgreSQL is away, and again once it is back: one event, of the token's session.

use crate::demo::{Answer, answer};
use local::private::Postgres;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::settings::PostgresSettings;
use service_kit::testing::{Seed, TestLog, TestServer, TestStores, client, eventually};
use service_kit::{http, stores};
use stream_workers::Tuning;
use tokio_util::sync::CancellationToken;

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

struct Front {
    stores: TestStores,
    server: TestServer,
    database: Postgres,
    _spill: tempfile::TempDir,
}

impl Front {
    /// A gateway, on a PostgreSQL of its own under `folder`.
    async fn start(folder: &std::path::Path) -> Self {
        let at = folder.to_owned();
        let database = tokio::task::spawn_blocking(move || Postgres::start(&at)).await.unwrap().unwrap();
        let postgres = PostgresSettings { database_url: database.url() };
        let pool = stores::postgres(&postgres).unwrap();
        stores::migrate_postgres(&pool).await.unwrap();
        let stores = TestStores { postgres, pool, ..TestStores::fresh().await };
        let spill = tempfile::tempdir().unwrap();
        let durability = ingest_gateway::Durability { spill_dir: Some(spill.path().to_owned()), ..Default::default() };
        let usual = ingest_gateway::Settings::on(stores.kafka.clone(), stores.postgres.clone());
        let gateway = ingest_gateway::Settings { durability, ..usual };
        let gateway = ingest_gateway::State::connect(&gateway, Clock::System).await.unwrap();
        let server = TestServer::start(http::with_boundary(ingest_gateway::routes(gateway))).await;
        Self { stores, server, database, _spill: spill }
    }

    async fn post(&self, path: &str, key: &str, body: &Value) -> Answer {
        let request = client().post(format!("{}{path}", self.server.url)).header("content-type", "application/json");
        answer(request.header("x-api-key", key).body(body.to_string())).await
    }

    fn worker(&self) -> stream_workers::Settings {
        stream_workers::Settings {
            kafka: self.stores.kafka.clone(),
            clickhouse: self.stores.clickhouse.clone(),
            postgres: self.stores.postgres.clone(),
            tuning: Tuning { group: self.stores.name.clone(), block_age_ms: 100 },
        }
    }
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
async fn a_click_sent_while_the_database_is_away_and_again_later_counts_once_in_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::start(folder.path()).await;
    let seed = Seed(&front.stores.pool);
    let (agent, shop) = (seed.org("agent", OrgType::Agent).await, seed.org("shop", OrgType::Platform).await);
    let session = json!({"session_id": SESSION, "agent_id": "bot"});
    assert_eq!(front.post("/sessions/bulk", &agent.key, &session).await.status, 201);
    let wanted = json!({"session_id": SESSION, "content_url": "https://www.example.com/page"});
    let minted = front.post("/click-tokens", &agent.key, &wanted).await;
    let token = minted.body["token"].as_str().unwrap().to_owned();
    let refused = front.post("/events", &shop.key, &json!({"events": [engaged(9, "ctx_never", None)]})).await;
    assert_eq!(refused.status, 422, "{refused:?}");

    let clicks = json!({"events": [engaged(1, &token, Some("e1")), engaged(2, &token, None)]});
    front.database.pause();
    assert_eq!(front.post("/events", &shop.key, &clicks).await.status, 201);
    let stop = CancellationToken::new();
    let (settings, stopped) = (front.worker(), stop.clone());
    let worker = tokio::spawn(async move { stream_workers::work(&settings, stopped).await });
    front.database.resume();
    eventually("an unknown token is refused", || async {
        let never = json!({"events": [engaged(9, "ctx_never", None)]});
        (front.post("/events", &shop.key, &never).await.status == 422).then_some(())
    })
    .await;
    assert_eq!(front.post("/events", &shop.key, &clicks).await.status, 201);
    let log = TestLog::connect(&front.stores.kafka);
    log.caught_up(&front.stores.name).await;
    stop.cancel();
    worker.await.unwrap().unwrap();

    let clickhouse = stores::clickhouse(&front.stores.clickhouse).unwrap();
    let rows = "SELECT [toString(at), toString(session_id), toString(platform_id), toString(org_id), agent_id] \
        FROM observations FINAL ORDER BY at";
    let rows: Vec<Vec<String>> = clickhouse.query(rows).fetch_all().await.unwrap();
    let row = |minute: u8| {
        let at = format!("2026-11-01 10:{minute:02}:00.000");
        vec![at, SESSION.to_owned(), agent.id.to_string(), shop.id.to_string(), "bot".to_owned()]
    };
    assert_eq!(rows, [row(1), row(2)]);
    for letter in log.set_aside().await {
        assert!(letter.reason.contains("unknown or expired"), "only a token that was never made: {letter:?}");
    }
}
