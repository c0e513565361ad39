//! A key's last use is stored in the background.

use crate::harness::{Gateway, retrieval};
use chrono::{DateTime, Utc};
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::clock::Clock;
use service_kit::testing::eventually;
use uuid::Uuid;

#[tokio::test]
async fn stores_only_uses_of_valid_keys() {
    let gateway = Gateway::start().await;
    let before = Clock::System.now();
    let (used, unused) = (gateway.seed().org("agent", OrgType::Agent).await, gateway.seed().org("unused", OrgType::Agent).await);
    let mut event = retrieval("https://a.test/x");
    event["id"] = json!("1");
    assert_eq!(gateway.report(&used.key, &json!({"events": [event]})).await.status, 201);
    let refused = gateway.report(&format!("{}x", unused.key), &json!({"events": []})).await;
    assert_eq!(refused.status, 401, "an invalid key has no recorded use");
    let (org, at): (Uuid, DateTime<Utc>) = eventually("the use is written", || async {
        sqlx::query_as("SELECT k.organization_id, u.last_used_at FROM key_uses_ingest u JOIN api_keys k ON k.id = u.key_id")
            .fetch_optional(&gateway.stores.pool)
            .await
            .unwrap()
    })
    .await;
    assert_eq!(org, used.id.0);
    assert!((before..=Clock::System.now()).contains(&at), "{at}");
}
