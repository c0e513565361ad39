//! Webhook endpoints: create, list, delete (threat row W5).

use crate::test_app::{Credentials, Identity, Requests as _, WEBHOOKS};
use serde_json::{Value, json};
use uuid::Uuid;

#[tokio::test]
async fn creates_lists_gets_and_deletes_an_endpoint() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    let created = app.subscribe(&owner, &["invite.claimed", "delegation.created", "delegation.created"]).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert!(created.text("secret").starts_with("whsec_") && created.text("secret").len() >= 40);
    let mut shown = created.body.clone();
    shown.as_object_mut().unwrap().remove("secret");
    let expected = json!({
        "id": created.text("id"), "url": "https://hooks.a.test/in", "event_types": ["delegation.created", "invite.claimed"],
        "created_at": created.text("created_at"), "disabled_at": null, "last_attempt": null,
    });
    assert_eq!(shown, expected);
    assert_eq!(app.get(Credentials::Key(&owner), WEBHOOKS).await.body, json!([expected]));
    let path = format!("{WEBHOOKS}/{}", created.text("id"));
    assert_eq!(app.get(Credentials::Key(&owner), &path).await.body, expected);
    for _ in 0..2 {
        let disabled = app.delete(Credentials::Key(&owner), &path).await;
        assert_eq!((disabled.status, disabled.body), (204, Value::Null), "repeating it changes nothing");
    }
    assert_eq!(app.get(Credentials::Key(&owner), WEBHOOKS).await.body, json!([]));
    assert!(app.get(Credentials::Key(&owner), &path).await.body["disabled_at"].is_string());
    assert_eq!(app.audited(org).await, ["webhook.created", "webhook.deleted"]);
}

#[tokio::test]
async fn w5_secrets_are_shown_once_and_stored_encrypted() {
    let app = Identity::open().await;
    let (_, owner) = app.org("owner").await;
    let created = app.subscribe(&owner, &["delegation.created"]).await;
    let other = app.subscribe(&owner, &["delegation.created"]).await;
    let secret = created.text("secret").to_owned();
    assert_ne!(other.text("secret"), secret);
    let path = format!("{WEBHOOKS}/{}", created.text("id"));
    for later in [app.get(Credentials::Key(&owner), WEBHOOKS).await, app.get(Credentials::Key(&owner), &path).await] {
        let text = later.body.to_string();
        assert!(!text.contains("whsec_") && !text.contains("secret") && !text.contains(&secret[6..]), "{text}");
    }

    let id: Uuid = created.text("id").parse().unwrap();
    let sealed: Vec<u8> = sqlx::query_scalar("SELECT secret_sealed FROM webhook_endpoints WHERE id = $1")
        .bind(id)
        .fetch_one(&app.stores.pool)
        .await
        .unwrap();
    let random = &secret.as_bytes()[6..];
    assert!(!sealed.windows(random.len()).any(|part| part == random), "stored encrypted");
    assert_eq!(app.sealer.open(&sealed, id.as_bytes()).unwrap(), secret, "can be decrypted for signing");
    let other_id: Uuid = other.text("id").parse().unwrap();
    assert!(app.sealer.open(&sealed, other_id.as_bytes()).is_err(), "only for its own endpoint");
}
