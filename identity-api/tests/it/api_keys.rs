//! API keys: create, list, use, revoke.

use crate::test_app::{Credentials, DRAINS, Identity, KEYS, Requests as _};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn creates_lists_uses_and_revokes_a_key() {
    let app = Identity::open().await;
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

#[tokio::test]
async fn keys_can_require_signed_reports() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    let (_, other) = app.org("other").await;
    let created = app.create(Credentials::Key(&owner), &json!({"name": "Agent", "require_signature": true})).await;
    assert_eq!((created.status, &created.body["require_signature"]), (201, &json!(true)), "{}", created.body);
    let path = format!("{KEYS}/{}", created.body["id"].as_str().unwrap());
    let change = async |key: &str, path: &str, is: bool| {
        app.send(Method::PATCH, Credentials::Key(key), path, json!({"require_signature": is}).to_string()).await
    };
    assert_eq!(change(&other, &path, false).await.status, 404, "another organization's key");
    for _ in 0..2 {
        let changed = change(&owner, &path, false).await;
        assert_eq!((changed.status, &changed.body["require_signature"]), (200, &json!(false)), "{}", changed.body);
    }
    let listed = app.list(Credentials::Key(&owner)).await.body;
    assert_eq!(listed.as_array().unwrap().last().unwrap()["require_signature"], json!(false));
    let changes: Vec<String> = app.audited(org).await.into_iter().filter(|action| action == "api_key.changed").collect();
    assert_eq!(changes.len(), 2, "created with it, and changed once");

    // What such a key creates requires signatures too.
    let scopes = ["identity:write", "telemetry:write"];
    let strict =
        app.create(Credentials::Key(&owner), &json!({"name": "Strict", "scopes": scopes, "require_signature": true})).await;
    let (strict, own) = (strict.text("key").to_owned(), format!("{KEYS}/{}", strict.text("id")));
    let made =
        app.create(Credentials::Key(&strict), &json!({"name": "Made", "scopes": scopes, "require_signature": false})).await;
    assert_eq!((made.status, &made.body["require_signature"]), (201, &json!(true)), "{}", made.body);
    assert_eq!(change(&strict, &own, false).await.status, 403);
    let drain = app.post(Credentials::Key(&strict), DRAINS, &json!({"name": "CDN", "provider": "ndjson"})).await;
    assert_eq!(drain.status, 403, "{}", drain.body);
    for key in [own, format!("{KEYS}/{}", made.text("id"))] {
        assert_eq!(change(&owner, &key, false).await.status, 200);
    }

    let drain = app.post(Credentials::Key(&owner), DRAINS, &json!({"name": "CDN", "provider": "ndjson"})).await;
    assert_eq!(drain.status, 201, "{}", drain.body);
    let listed = app.list(Credentials::Key(&owner)).await.body;
    let of_drain = listed.as_array().unwrap().iter().find(|key| !key["drain_id"].is_null()).unwrap();
    let path = format!("{KEYS}/{}", of_drain["id"].as_str().unwrap());
    assert_eq!(change(&owner, &path, true).await.status, 409, "providers can't sign");
    let listed = app.list(Credentials::Key(&owner)).await.body;
    assert!(listed.as_array().unwrap().iter().all(|key| key["require_signature"] == false), "{listed}");
}
