//! A bulk call during a PostgreSQL crash: nothing remains, and the repeated call succeeds (G11).

use crate::test_app::{Identity, REQUESTS, Requests as _, TestApp};
use identity_api::domains::DomainSettings;
use local::test_servers::Postgres;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::databases;
use service_kit::settings::{PostgresSettings, WebhookSettings};
use service_kit::testing::{Credentials, TestResponse, TestStores, eventually};
use sqlx::{Connection, PgConnection};
use std::sync::Arc;
use tempfile::TempDir;

const ITEMS: usize = 100;

struct Alone {
    app: Arc<TestApp>,
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
        let pool = databases::postgres(&settings).unwrap();
        databases::migrate_postgres(&pool).await.unwrap();
        let stores = TestStores { pool, postgres: settings, ..TestStores::unprepared().await };
        let app = Identity::open_on(stores, Clock::System, WebhookSettings::default(), DomainSettings::default()).await;
        Self { app: Arc::new(app), postgres: Some(postgres), url, _folder: folder }
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

async fn file(app: &TestApp, platform: &str) -> TestResponse {
    let items: Vec<Value> = (0..ITEMS).map(|number| json!({"domain": format!("owner{number}.test")})).collect();
    app.post(Credentials::Key(platform), &format!("{REQUESTS}/bulk"), &json!(items)).await
}

/// Returns the numbers of requests, messages and audit rows.
async fn kept(app: &TestApp) -> [i64; 3] {
    [
        app.count("SELECT count(*) FROM delegation_requests WHERE status = 'pending'").await,
        app.count("SELECT count(*) FROM webhook_deliveries").await,
        app.count("SELECT count(*) FROM audit_log WHERE action = 'delegation_request.created'").await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_bulk_calls_change_nothing() {
    let mut alone = Alone::open().await;
    let app = Arc::clone(&alone.app);
    for number in 0..ITEMS {
        let (_, key) = app.owner_of(&format!("owner{number}.test")).await;
        assert_eq!(app.subscribe(&key, &["delegation_request.created"]).await.status, 201);
    }
    let (platform, key) = app.platform("platform").await;
    // A concurrent request for the same pair makes the call wait in the middle.
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
        let (app, key) = (Arc::clone(&app), key.clone());
        async move { file(&app, &key).await }
    });
    eventually("the call waits in the middle", || async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO delegation_requests%'";
        (app.count(waiting).await == 1).then_some(())
    })
    .await;
    alone.kill().await;
    let refused = call.await.unwrap();
    assert_eq!(refused.refusal(), (503, "unavailable"), "{}", refused.body);
    drop(waited_for);
    alone.restart().await;
    eventually("PostgreSQL is back", || async { sqlx::query("SELECT 1").execute(&app.stores.pool).await.ok() }).await;
    assert_eq!(kept(&app).await, [0, 0, 0], "nothing remains of the interrupted call");

    let all = ITEMS as i64;
    let filed = file(&app, &key).await;
    assert_eq!((filed.status, &filed.body["summary"]["created"]), (200, &json!(all)), "{}", filed.body["summary"]);
    assert_eq!(kept(&app).await, [all, all, 2 * all], "one row in the trail of each side");
    let again = file(&app, &key).await;
    assert_eq!((again.status, &again.body["summary"]["conflict"]), (200, &json!(all)), "{}", again.body["summary"]);
    assert_eq!(kept(&app).await, [all, all, 2 * all], "no duplicates");
}
