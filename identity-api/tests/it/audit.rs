//! The audit trail: who made a change, its details, and that its rows can't be modified.

use crate::mailbox::Mailbox as _;
use crate::people::People as _;
use crate::people::REVIEWS;
use crate::test_app::{Credentials, Identified, Identity, Requests as _, SESSION, SETTINGS, TestApp, VERIFY};
use identity_api::domains;
use reqwest::Method;
use schemas::identity::REQUEST_LIFETIME;
use schemas::site::Site;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) trait AuditRows: Identified {
    /// Returns an action's rows, oldest first: the actor's kind and id, object, detail.
    async fn trail(&self, action: &str) -> Vec<(String, Option<Uuid>, Uuid, Value)> {
        sqlx::query_as("SELECT actor_kind, actor_id, object_id, detail FROM audit_log WHERE action = $1 ORDER BY id")
            .bind(action)
            .fetch_all(&self.app().stores.pool)
            .await
            .unwrap()
    }
}

impl AuditRows for TestApp {}

#[tokio::test]
async fn settings_changes_record_the_actor_and_the_setting() {
    let app = Identity::open().await;
    let (org, key) = app.org("owner").await;
    let key_id: Uuid =
        sqlx::query_scalar("SELECT id FROM api_keys WHERE organization_id = $1 ORDER BY created_at DESC, id DESC LIMIT 1")
            .bind(org.0)
            .fetch_one(&app.stores.pool)
            .await
            .unwrap();
    let session = app.session("ada@a.test", &[org]).await;
    let ada: Uuid = sqlx::query_scalar("SELECT id FROM users").fetch_one(&app.stores.pool).await.unwrap();
    for (shows, value) in [(Credentials::Key(&key), true), (Credentials::Session(&session), false)] {
        let body = json!({"visible_in_click_token_lookups": value}).to_string();
        assert_eq!(app.send(Method::PATCH, shows, SETTINGS, body).await.status, 200);
    }
    let expected = [("key", key_id, true), ("user", ada, false)]
        .map(|(kind, id, value)| (kind.to_owned(), Some(id), org.0, json!({"visible_in_click_token_lookups": value})));
    assert_eq!(app.trail("settings.changed").await, expected);
}

#[tokio::test]
async fn sign_in_and_sign_out_are_audited() {
    let app = Identity::open().await;
    app.ask_to_sign_in("ada@a.test").await;
    let token = app.token_mailed("ada@a.test", 1).await;
    let opened = app.post(Credentials::Nothing, VERIFY, &json!({"token": token})).await;
    let ada: Uuid = opened.body["user"]["id"].as_str().unwrap().parse().unwrap();
    let session = opened.text("session_id");
    let own = [("user".to_owned(), Some(ada), ada, json!({}))];
    assert_eq!((app.trail("user.created").await, app.trail("session.opened").await), (own.to_vec(), own.to_vec()));
    for status in [204, 401] {
        assert_eq!(app.delete(Credentials::Session(session), SESSION).await.status, status);
        assert_eq!(app.trail("session.ended").await, own, "once");
    }
    app.ask_to_sign_in("ada@a.test").await;
    let token = app.token_mailed("ada@a.test", 2).await;
    assert_eq!(app.post(Credentials::Nothing, VERIFY, &json!({"token": token})).await.status, 200);
    assert_eq!((app.trail("user.created").await.len(), app.trail("session.opened").await.len()), (1, 2));
    let stored: Vec<String> = sqlx::query_scalar("SELECT a::text FROM audit_log a").fetch_all(&app.stores.pool).await.unwrap();
    assert!(stored.iter().all(|row| !row.contains(session) && !row.contains(&token)), "{stored:?}");
}

#[tokio::test]
async fn audit_shows_system_as_actor_of_automatic_changes() {
    let app = Identity::open_with_manual_clock().await;
    let (owner, _) = app.org("owner").await;
    let site = Site::from_domain("a.test").unwrap();
    for _ in 0..2 {
        domains::ensure_verified(&app.stores.pool, owner, &site, app.clock.now()).await.unwrap();
    }
    let verified = app.trail("domain.verified").await;
    assert_eq!(verified.len(), 1, "verifying it again changes nothing");
    let (kind, by, _, detail) = &verified[0];
    assert_eq!((kind.as_str(), *by, detail), ("system", None, &json!({"domain": "a.test", "method": "operator"})));
    let (platform_org, platform) = app.platform("platform").await;
    let first = app.request_delegation(&platform, "a.test").await;
    app.clock.advance(REQUEST_LIFETIME);
    assert_eq!(app.request_delegation(&platform, "a.test").await.status, 201);
    let id = first.text("id").parse().unwrap();
    let row = |detail: Value| ("system".to_owned(), None, id, detail);
    let expected = [row(json!({"requester_org_id": platform_org})), row(json!({"grantor_org_id": owner}))];
    assert_eq!(app.trail("delegation_request.expired").await, expected);
}

#[tokio::test]
async fn audit_rows_cannot_be_changed_or_deleted() {
    let app = Identity::open().await;
    let ada = app.person("ada@a.test").await;
    app.create_organization(&ada, "a.test").await;
    let rows = "SELECT count(*) FROM audit_log";
    let before = app.count(rows).await;
    assert!(before > 0);
    for statement in ["UPDATE audit_log SET detail = '{}'", "DELETE FROM audit_log", "TRUNCATE audit_log"] {
        let refused = sqlx::query(statement).execute(&app.stores.pool).await.unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{refused}");
    }
    assert_eq!(app.count(rows).await, before);
}

#[tokio::test]
async fn changing_the_operator_role_ends_sessions() {
    let app = Identity::open().await;
    let ada = app.person("ada@a.test").await;
    for (verb, status) in [("add", 200), ("remove", 403)] {
        let before = app.back(&ada).await;
        crate::admin::json_of(&app, &format!("operator {verb} ada@a.test")).await;
        assert_eq!(app.get(before.credentials(), SESSION).await.status, 401, "{verb}");
        assert_eq!(app.get(app.back(&ada).await.credentials(), REVIEWS).await.status, status, "{verb}");
        let (kind, by, whose, _) = app.trail("session.ended").await.pop().unwrap();
        assert_eq!((kind.as_str(), by, whose), ("system", None, ada.id.0), "{verb}");
    }
}
