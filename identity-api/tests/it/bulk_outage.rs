//! G11: PostgreSQL is killed in the middle of a bulk call, and the call is repeated.

use crate::desk::{Answer, Desk, REQUESTS, Shows};
use identity_api::domains::DomainSettings;
use local::private::Postgres;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::settings::{PostgresSettings, WebhookSettings};
use service_kit::stores;
use service_kit::testing::{TestStores, eventually};
use sqlx::{Connection, PgConnection};
use std::sync::Arc;
use tempfile::TempDir;

const ITEMS: usize = 100;

/// A desk on a PostgreSQL of its own.
struct Alone {
    desk: Arc<Desk>,
    postgres: Option<Postgres>,
    url: String,
    _folder: TempDir,
}

impl Alone {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let postgres = tokio::task::spawn_blocking(move || Postgres::start(&path).unwrap()).await.unwrap();
        let url = postgres.url();
        let settings = PostgresSettings { database_url: url.clone() };
        let pool = stores::postgres(&settings).unwrap();
        stores::migrate_postgres(&pool).await.unwrap();
        let stores = TestStores { pool, postgres: settings, ..TestStores::fresh().await };
        let desk = Desk::open_on(stores, Clock::System, WebhookSettings::default(), DomainSettings::default()).await;
        Self { desk: Arc::new(desk), postgres: Some(postgres), url, _folder: folder }
    }

    async fn kill(&mut self) {
        let mut postgres = self.postgres.take().unwrap();
        let killed = tokio::task::spawn_blocking(move || {
            postgres.kill_9();
            postgres
        });
        self.postgres = Some(killed.await.unwrap());
    }

    async fn restart(&mut self) {
        let mut postgres = self.postgres.take().unwrap();
        let restarted = tokio::task::spawn_blocking(move || {
            postgres.restart().unwrap();
            postgres
        });
        self.postgres = Some(restarted.await.unwrap());
    }
}

async fn file(desk: &Desk, platform: &str) -> Answer {
    let items: Vec<Value> = (0..ITEMS).map(|number| json!({"domain": format!("owner{number}.test")})).collect();
    desk.post(Shows::Key(platform), &format!("{REQUESTS}/bulk"), &json!(items)).await
}

/// Requests, messages and lines in the trail: one of each for what was filed.
async fn kept(desk: &Desk) -> [i64; 3] {
    [
        desk.count("SELECT count(*) FROM delegation_requests WHERE status = 'pending'").await,
        desk.count("SELECT count(*) FROM webhook_deliveries").await,
        desk.count("SELECT count(*) FROM audit_log WHERE action = 'delegation_request.created'").await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_a_bulk_call_whose_database_dies_in_the_middle_leaves_nothing_and_its_repeat_files_each_once() {
    let mut alone = Alone::open().await;
    let desk = Arc::clone(&alone.desk);
    for number in 0..ITEMS {
        let (_, key) = desk.owner_of(&format!("owner{number}.test")).await;
        assert_eq!(desk.subscribe(&key, &["delegation_request.created"]).await.status, 201);
    }
    let (platform, key) = desk.platform("platform").await;
    // Whoever files for the same pair at the same time makes the call wait in its middle.
    let mut other = PgConnection::connect(&alone.url).await.unwrap();
    let mut waited_for = other.begin().await.unwrap();
    sqlx::query(
        "INSERT INTO delegation_requests (requester_org_id, grantor_org_id, domain, scopes, created_at, expires_at) \
         SELECT $1, organization_id, domain, '{telemetry:read}', now(), now() + interval '1 day' FROM domains WHERE domain = 'owner50.test'",
    )
    .bind(platform.0)
    .execute(&mut *waited_for)
    .await
    .unwrap();
    let call = tokio::spawn({
        let (desk, key) = (Arc::clone(&desk), key.clone());
        async move { file(&desk, &key).await }
    });
    eventually("the call waits in its middle", || async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO delegation_requests%'";
        (desk.count(waiting).await == 1).then_some(())
    })
    .await;
    alone.kill().await;
    let refused = call.await.unwrap();
    assert_eq!(refused.refusal(), (503, "unavailable"), "{}", refused.body);
    drop(waited_for);
    alone.restart().await;
    eventually("PostgreSQL answers again", || async { sqlx::query("SELECT 1").execute(&desk.stores.pool).await.ok() }).await;
    assert_eq!(kept(&desk).await, [0, 0, 0], "half of it was written before");

    let all = ITEMS as i64;
    let filed = file(&desk, &key).await;
    assert_eq!((filed.status, &filed.body["summary"]["created"]), (200, &json!(all)), "{}", filed.body["summary"]);
    assert_eq!(kept(&desk).await, [all; 3]);
    let again = file(&desk, &key).await;
    assert_eq!((again.status, &again.body["summary"]["conflict"]), (200, &json!(all)), "{}", again.body["summary"]);
    assert_eq!(kept(&desk).await, [all; 3], "no double");
}
