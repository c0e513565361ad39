//! `last_used_at` of keys: uses recorded by this service, and those in the other services' tables.

use crate::test_app::{Identity, Requests as _};
use chrono::{DateTime, Utc};
use serde_json::Value;
use service_kit::testing::{Credentials, eventually};

fn used(key: &Value) -> Option<DateTime<Utc>> {
    key["last_used_at"].as_str().map(|at| at.parse().unwrap())
}

#[tokio::test]
async fn sets_last_used_at_only_for_used_keys() {
    let app = Identity::open().await;
    let before = app.clock.now();
    let (_, key) = app.org("owner").await;
    // The organization's first key, which is never used, and the calling key.
    let listed = eventually("last_used_at is set", || async {
        let listed = app.list(Credentials::Key(&key)).await.body;
        used(&listed[1]).is_some().then_some(listed)
    })
    .await;
    assert_eq!(used(&listed[0]), None, "{listed}");
    let at = used(&listed[1]).unwrap();
    assert!((before..=app.clock.now()).contains(&at), "{at}");
}

#[tokio::test]
async fn shows_the_latest_use_in_any_service() {
    let app = Identity::open().await;
    let (org, _) = app.org("owner").await;
    let session = app.session("owner@a.test", &[org]).await;
    let shown = async || used(&app.list(Credentials::Session(&session)).await.body[0]);
    assert_eq!(shown().await, None);
    let first = "(SELECT id FROM api_keys ORDER BY created_at, id LIMIT 1)";
    let mut expected = "2026-01-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap();
    for (statement, is_latest) in [
        (format!("INSERT INTO key_uses_reads VALUES ({first}, $1)"), true),
        (format!("INSERT INTO key_uses_ingest VALUES ({first}, $1)"), true),
        (format!("UPDATE api_keys SET last_used_at = $1 WHERE id = {first}"), true),
        (format!("UPDATE key_uses_reads SET last_used_at = $1 WHERE key_id = {first}"), true),
        (format!("UPDATE key_uses_ingest SET last_used_at = $1::timestamptz - interval '2 hours' WHERE key_id = {first}"), false),
    ] {
        let at = expected + chrono::TimeDelta::hours(1);
        sqlx::query(sqlx::AssertSqlSafe(statement.clone())).bind(at).execute(&app.stores.pool).await.unwrap();
        expected = if is_latest { at } else { expected };
        assert_eq!(shown().await, Some(expected), "{statement}");
    }
}
