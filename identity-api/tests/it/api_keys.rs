//! API keys: create, list, use, revoke.

use crate::test_app::{Credentials, TestApp};
use serde_json::{Value, json};

#[tokio::test]
async fn creates_lists_uses_and_revokes_a_key() {
    let app = TestApp::open().await;
    let (org, owner) = app.org("owner").await;
    let created =
        app.create(Credentials::Key(&owner), &json!({"name": "CDN", "scopes": ["telemetry:write", "identity:read"]})).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let (id, key) = (created.body["id"].as_str().unwrap(), created.body["key"].as_str().unwrap());
    assert!(key.starts_with("svc_pub_") && key.starts_with(created.body["prefix"].as_str().unwrap()));
    let mut shown = created.body.clone();
    shown.as_object_mut().unwrap().remove("key");
    assert_eq!(
        members(&shown),
        [
            "created_at",
            "created_by",
            "drain_id",
            "expires_at",
            "id",
            "last_used_at",
            "name",
            "organization_id",
            "prefix",
            "require_signature",
            "revoked_at",
            "scopes"
        ]
    );
    assert_eq!((&shown["name"], &shown["organization_id"]), (&json!("CDN"), &json!(org)));
    assert_eq!((&shown["scopes"], &shown["revoked_at"]), (&json!(["identity:read", "telemetry:write"]), &Value::Null));

    let listed = app.list(Credentials::Key(key)).await;
    assert_eq!(listed.status, 200, "the new key works");
    let listed = listed.body.as_array().unwrap().clone();
    assert_eq!((listed.len(), unused(&listed[2])), (3, shown), "oldest first, unchanged");

    let revoked = app.revoke(Credentials::Key(&owner), id).await;
    assert_eq!(revoked.status, 200);
    assert!(revoked.body["revoked_at"].is_string(), "{}", revoked.body);
    let again = app.revoke(Credentials::Key(&owner), id).await;
    assert_eq!((again.status, unused(&again.body)), (200, unused(&revoked.body)), "repeating it changes nothing");
    assert_eq!(app.list(Credentials::Key(key)).await.refusal(), (401, "unauthenticated"), "the key no longer works");
    let listed = app.list(Credentials::Key(&owner)).await.body;
    assert_eq!(unused(listed.as_array().unwrap().last().unwrap()), unused(&revoked.body), "it is still listed");
}

/// Clears `last_used_at`, which is written in the background.
fn unused(key: &Value) -> Value {
    let mut key = key.clone();
    key["last_used_at"] = Value::Null;
    key
}

fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
