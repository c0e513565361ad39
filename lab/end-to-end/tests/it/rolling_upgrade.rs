//! A rolling upgrade as seen by old processes: they keep working after a newer build has migrated the stores.

use crate::pipeline::Pipeline;
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::databases;
use service_kit::testing::Seed;

#[tokio::test(flavor = "multi_thread")]
async fn previous_release_works_with_newer_stores() {
    let pipeline = Pipeline::start().await;
    let pool = &pipeline.stores.pool;
    for newer in [
        "ALTER TABLE sessions ADD COLUMN of_tomorrow text NOT NULL DEFAULT ''",
        "ALTER TABLE webhook_deliveries ADD COLUMN of_tomorrow text",
        "CREATE TABLE things_of_tomorrow (id uuid PRIMARY KEY)",
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'tomorrow', true, '', 1)",
    ] {
        sqlx::query(newer).execute(pool).await.unwrap();
    }
    pipeline.clickhouse("ALTER TABLE events ADD COLUMN of_tomorrow String DEFAULT ''").await;

    databases::check_postgres(pool).await.expect("newer tables were rejected");
    databases::migrate_postgres(pool).await.expect("the old build failed to migrate newer tables");
    databases::check_clickhouse(&pipeline.stores.clickhouse).await.expect("a newer column was rejected");
    let seed = Seed(pool);
    let (owner, agent) = (seed.owner_of("example.com").await, seed.org("agent", OrgType::Agent).await);
    let event = json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://example.com/"});
    let session = json!({"session_id": "00000000-0000-0000-0000-000000000007", "events": [event]});
    let later = Pipeline::start_on(pipeline.stores.clone()).await;
    for process in [&pipeline, &later] {
        process.post("/sessions/bulk", &agent.key, &session).await;
    }
    later.run_worker_until_idle().await;
    assert!(later.read(&owner.key, "/content-owners/summary").await.contains("\"total_events\":1"));
}
