//! Stores when keys were last used for reading, outside the requests.

use crate::test_app::Query;
use chrono::{DateTime, Utc};
use service_kit::clock::Clock;
use service_kit::testing::eventually;
use uuid::Uuid;

#[tokio::test]
async fn records_uses_per_key() {
    let app = Query::start().await;
    let before = Clock::System.now();
    let (used, _unused) = (app.seed().owner_of("a.test").await, app.seed().owner_of("b.test").await);
    app.total(&used.key, &[]).await;
    let (org, at): (Uuid, DateTime<Utc>) = eventually("the use is stored", || async {
        sqlx::query_as("SELECT k.organization_id, u.last_used_at FROM key_uses_reads u JOIN api_keys k ON k.id = u.key_id")
            .fetch_optional(&app.stores.pool)
            .await
            .unwrap()
    })
    .await;
    assert_eq!(org, used.id.0);
    assert!((before..=Clock::System.now()).contains(&at), "{at}");
}
