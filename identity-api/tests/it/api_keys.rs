//! What can be done with keys, and what cannot.

use crate::test_app::{Shows, TestApp, answer};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn a_key_is_minted_listed_used_and_revoked() {
    let app = TestApp::open().await;
    let (org, owner) = app.org("owner").await;
    let created = app.create(Shows::Key(&owner), &json!({"name": "CDN", "scopes": ["telemetry:write", "identity:read"]})).await;
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
            "revoked_at",
            "scopes"
        ]
    );
    assert_eq!((&shown["name"], &shown["organization_id"]), (&json!("CDN"), &json!(org)));
    assert_eq!((&shown["scopes"], &shown["revoked_at"]), (&json!(["identity:read", "telemetry:write"]), &Value::Null));

    let listed = app.list(Shows::Key(key)).await;
    assert_eq!(listed.status, 200, "the new key works");
    let listed = listed.body.as_array().unwrap().clone();
    assert_eq!((listed.len(), unused(&listed[2])), (3, shown), "oldest first, as it was shown");

    let revoked = app.revoke(Shows::Key(&owner), id).await;
    assert_eq!(revoked.status, 200);
    assert!(revoked.body["revoked_at"].is_string(), "{}", revoked.body);
    let again = app.revoke(Shows::Key(&owner), id).await;
    assert_eq!((again.status, unused(&again.body)), (200, unused(&revoked.body)), "a second time changes nothing");
    assert_eq!(app.list(Shows::Key(key)).await.refusal(), (401, "unauthenticated"), "and the key is dead");
    let listed = app.list(Shows::Key(&owner)).await.body;
    assert_eq!(unused(listed.as_array().unwrap().last().unwrap()), unused(&revoked.body), "but still listed");
}

/// A key as it is before it is used: when it was comes from the background.
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
async fn a_raw_key_is_shown_once_and_never_stored() {
    let app = TestApp::open().await;
    let (_, owner) = app.org("owner").await;
    let created = app.create(Shows::Key(&owner), &json!({})).await.body;
    let key = created["key"].as_str().unwrap();
    let random = &key[12..];
    let revoked = app.revoke(Shows::Key(&owner), created["id"].as_str().unwrap()).await.body.to_string();
    let listed = app.list(Shows::Key(&owner)).await.body.to_string();
    let stored: Vec<String> = sqlx::query_scalar("SELECT k::text FROM api_keys k").fetch_all(&app.stores.pool).await.unwrap();
    assert_eq!(stored.len(), 3);
    for text in stored.iter().chain([&revoked, &listed]) {
        assert!(!text.contains(random) && !text.contains("\"key\":"), "{text}");
    }
    assert_eq!(created["scopes"], json!(["identity:read", "telemetry:read", "telemetry:write"]), "the default scopes");
}

#[tokio::test]
async fn ids_that_are_not_the_callers_all_get_the_same_404() {
    let app = TestApp::open().await;
    let ((_, mine), (_, theirs)) = (app.org("mine").await, app.org("theirs").await);
    let their_id = app.create(Shows::Key(&theirs), &json!({})).await.body["id"].as_str().unwrap().to_owned();
    let expected = app.revoke(Shows::Key(&mine), "01900000-0000-7000-8000-000000000000").await;
    assert_eq!(expected.refusal(), (404, "not_found"));
    for id in [&their_id, "x", "%00", "..%2F..", "0", &"9".repeat(5_000), "%7Bnull%7D", "00000000000000000000000000000000"] {
        assert_eq!(app.revoke(Shows::Key(&mine), id).await, expected, "{id}");
    }
    assert_eq!(app.revoke(Shows::Key(&mine), "%FF").await.refusal(), (400, "invalid_parameter"), "not even a text");
    let listed = app.list(Shows::Key(&theirs)).await.body;
    assert!(listed.as_array().unwrap().iter().all(|key| key["revoked_at"].is_null()), "nothing happened to theirs: {listed}");
}

#[tokio::test]
async fn members_that_are_not_the_callers_to_set_are_refused() {
    let app = TestApp::open().await;
    let ((_, mine), (theirs, _)) = (app.org("mine").await, app.org("theirs").await);
    for (member, value) in [
        ("organization_id", json!(theirs)),
        ("id", json!("01900000-0000-7000-8000-000000000000")),
        ("key", json!("svc_pub_x")),
        ("prefix", json!("x")),
        ("key_hash", json!("00")),
        ("created_at", json!("2026-01-01T00:00:00Z")),
        ("last_used_at", json!(null)),
        ("revoked_at", json!(null)),
        ("strict", json!(false)),
        ("Name", json!("x")),
        ("", json!("x")),
    ] {
        assert_eq!(app.create(Shows::Key(&mine), &json!({member: value})).await.refusal(), (422, "invalid_request"), "{member}");
    }
    assert_eq!(app.list(Shows::Key(&mine)).await.body.as_array().unwrap().len(), 2, "nothing was minted");
}

#[tokio::test]
async fn bodies_that_break_a_rule_mint_nothing() {
    let app = TestApp::open().await;
    let (_, owner) = app.org("owner").await;
    for text in ["", "null", "[]", "\"x\"", "{", "{\"name\":}", "\u{0}{}", "{}x"] {
        assert_eq!(app.create_from(Shows::Key(&owner), text).await.refusal(), (400, "invalid_body"), "{text:?}");
    }
    for bytes in [&b"{\"name\":\"\xff\"}"[..], b"{\"name\":\"\x00\"}", b"{\"name\":\"\\ud800\"}"] {
        let refused = app.create_from(Shows::Key(&owner), bytes.to_vec()).await;
        assert!(matches!(refused.status, 400 | 422), "{bytes:?}: {}", refused.body);
    }
    for body in [
        json!({"name": "nul \u{0}"}),
        json!({"name": "line\nfeed"}),
        json!({"name": "escape \u{1b}[2J"}),
        json!({"name": "c1 \u{9b}"}),
        json!({"name": ""}),
        json!({"name": " \t "}),
        json!({"name": "  "}),
        json!({"name": "\u{202e}NDC"}),
        json!({"name": "x".repeat(201)}),
        json!({"name": 7}),
        json!({"scopes": []}),
        json!({"scopes": "telemetry:read"}),
        json!({"scopes": ["telemetry:read", "telemetry:*"]}),
        json!({"scopes": ["identity:admin"]}),
        json!({"scopes": [null]}),
    ] {
        assert_eq!(app.create(Shows::Key(&owner), &body).await.refusal(), (422, "invalid_request"), "{body}");
    }
    assert_eq!(app.create_from(Shows::Key(&owner), "{\"name\":\"a\",\"name\":\"b\"}").await.status, 422, "a repeated member");
    let wide = format!("{{\"name\":\"{}\"}}", "x".repeat(70_000));
    assert_eq!(app.create_from(Shows::Key(&owner), wide).await.refusal(), (413, "too_large"));
    let as_text = app.request(Method::POST, crate::test_app::KEYS, Shows::Key(&owner)).body("{}");
    assert_eq!(answer(as_text).await.refusal(), (415, "unsupported_media_type"));
    assert_eq!(app.list(Shows::Key(&owner)).await.body.as_array().unwrap().len(), 2, "nothing was minted");
    let longest = app.create(Shows::Key(&owner), &json!({"name": "é".repeat(100)})).await;
    assert_eq!(longest.status, 201, "200 bytes are a name");
}
