//! Registering, listing and disabling endpoints (threat rows W1 to W7, X29).

use crate::test_app::{NOBODY, Shows, TestApp, WEBHOOKS};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::settings::WebhookSettings;
use uuid::Uuid;

#[tokio::test]
async fn an_endpoint_is_registered_listed_shown_and_disabled() {
    let app = TestApp::open().await;
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
    assert_eq!(app.get(Shows::Key(&owner), WEBHOOKS).await.body, json!([expected]));
    let path = format!("{WEBHOOKS}/{}", created.text("id"));
    assert_eq!(app.get(Shows::Key(&owner), &path).await.body, expected);
    for _ in 0..2 {
        let disabled = app.delete(Shows::Key(&owner), &path).await;
        assert_eq!((disabled.status, disabled.body), (204, Value::Null), "a second time changes nothing");
    }
    assert_eq!(app.get(Shows::Key(&owner), WEBHOOKS).await.body, json!([]));
    assert!(app.get(Shows::Key(&owner), &path).await.body["disabled_at"].is_string());
    assert_eq!(app.audited(org).await, ["webhook.created", "webhook.deleted"]);
}

#[tokio::test]
async fn w1_w2_w3_a_receiver_is_a_public_https_server_by_name() {
    let app = TestApp::open().await;
    let (_, owner) = app.org("owner").await;
    let long = format!("https://hooks.a.test/{}", "x".repeat(8_192));
    for url in [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://0x7f.1/",
        "https://2130706433/",
        "https://0177.0.0.1/",
        "https://１２７.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://8.8.8.8/",
        "https://localhost/",
        "https://localhost./",
        "https://a.localhost/",
        "https://metadata.google.internal/",
        "https://kafka/",
        "https://x.local/",
        "https://x.home.arpa/",
        "http://hooks.a.test/",
        "ftp://hooks.a.test/",
        "https://u:p@hooks.a.test/",
        "https://hooks.a.test/#f",
        "https://hooks.a.test:22/",
        "https://hooks.a.test:6379/",
        "https://",
        "hooks.a.test",
        "",
        "https://hooks.a.test/\r\nX: y",
        &long,
    ] {
        let body = json!({"url": url, "event_types": ["delegation.created"]});
        let refused = app.post(Shows::Key(&owner), WEBHOOKS, &body).await;
        assert_eq!(refused.refusal(), (422, "invalid_request"), "{url}");
        assert_eq!(refused.body["errors"][0]["field"], "url", "{url}");
    }
    assert_eq!(app.count("SELECT count(*) FROM webhook_endpoints").await, 0);
}

#[tokio::test]
async fn a_local_receiver_can_be_registered_where_the_operator_allows_it() {
    let allowed = WebhookSettings { webhook_allow: "localhost:9443".parse().unwrap(), ..WebhookSettings::default() };
    let app = TestApp::open_with(Clock::System, allowed).await;
    let (_, owner) = app.org("owner").await;
    for (url, status) in [
        ("https://localhost:9443/in", 201),
        ("https://localhost:9444/in", 422),
        ("https://localhost/in", 422),
        ("http://localhost:9443/in", 422),
        ("https://127.0.0.1:9443/in", 422),
        ("https://hooks.a.test/in", 201),
    ] {
        let body = json!({"url": url, "event_types": ["delegation.created"]});
        assert_eq!(app.post(Shows::Key(&owner), WEBHOOKS, &body).await.status, status, "{url}");
    }
}

#[tokio::test]
async fn the_eleventh_active_endpoint_is_a_conflict() {
    let app = TestApp::open().await;
    let ((_, owner), (_, other)) = (app.org("owner").await, app.org("other").await);
    let mut last = String::new();
    for _ in 0..10 {
        last = app.subscribe(&owner, &["delegation.created"]).await.text("id").to_owned();
    }
    let refused = app.subscribe(&owner, &["delegation.created"]).await;
    assert_eq!(refused.refusal(), (409, "conflict"));
    assert_eq!(app.subscribe(&other, &["delegation.created"]).await.status, 201, "another organisation's do not count");
    assert_eq!(app.delete(Shows::Key(&owner), &format!("{WEBHOOKS}/{last}")).await.status, 204);
    assert_eq!(app.subscribe(&owner, &["delegation.created"]).await.status, 201, "nor do disabled ones");
}

#[tokio::test]
async fn w5_a_secret_is_shown_once_and_stored_sealed() {
    let app = TestApp::open().await;
    let (_, owner) = app.org("owner").await;
    let (partner, _) = app.platform("partner").await;
    let created = app.subscribe(&owner, &["delegation.created"]).await;
    let other = app.subscribe(&owner, &["delegation.created"]).await;
    let secret = created.text("secret").to_owned();
    assert_ne!(other.text("secret"), secret);
    assert_eq!(app.grant(&owner, partner).await.status, 201);
    let path = format!("{WEBHOOKS}/{}", created.text("id"));
    for later in [
        app.get(Shows::Key(&owner), WEBHOOKS).await,
        app.get(Shows::Key(&owner), &path).await,
        app.subscribe(&owner, &["x"]).await,
        app.post(Shows::Key(&owner), &path, &json!({})).await,
        app.delete(Shows::Key(&owner), &path).await,
        app.get(Shows::Key(&owner), &path).await,
    ] {
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
    assert!(!sealed.windows(random.len()).any(|part| part == random), "not as it is");
    assert_eq!(app.sealer.open(&sealed, id.as_bytes()).unwrap(), secret, "but so that it can sign");
    let other_id: Uuid = other.text("id").parse().unwrap();
    assert!(app.sealer.open(&sealed, other_id.as_bytes()).is_err(), "and only for its own endpoint");
    for table in ["webhook_endpoints", "webhook_deliveries", "audit_log"] {
        let dump = sqlx::AssertSqlSafe(format!("SELECT t::text FROM {table} t"));
        let rows: Vec<String> = sqlx::query_scalar(dump).fetch_all(&app.stores.pool).await.unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| !row.contains(&secret[6..])), "{table}");
    }
}

#[tokio::test]
async fn w6_an_endpoint_is_its_organisations_only() {
    let app = TestApp::open().await;
    let ((_, owner), (_, stranger)) = (app.org("owner").await, app.org("stranger").await);
    let created = app.subscribe(&owner, &["delegation.created"]).await;
    assert_eq!(app.get(Shows::Key(&stranger), WEBHOOKS).await.body, json!([]));
    let absent = app.get(Shows::Key(&stranger), &format!("{WEBHOOKS}/{NOBODY}")).await;
    assert_eq!(absent.refusal(), (404, "not_found"));
    for id in [created.text("id"), "x", "%00", "..%2F..", "0", "00000000000000000000000000000000"] {
        let path = format!("{WEBHOOKS}/{id}");
        assert_eq!(app.get(Shows::Key(&stranger), &path).await, absent, "{id}");
        assert_eq!(app.delete(Shows::Key(&stranger), &path).await, absent, "{id}");
    }
    let path = format!("{WEBHOOKS}/{}", created.text("id"));
    assert_eq!(app.get(Shows::Key(&owner), &path).await.body["disabled_at"], Value::Null, "it is still active");
}

#[tokio::test]
async fn w7_a_subscription_names_known_types() {
    let app = TestApp::open().await;
    let (_, owner) = app.org("owner").await;
    for event_types in [
        json!([]),
        json!(null),
        json!(["x"]),
        json!(["delegation.created", "x"]),
        json!(["Delegation.Created"]),
        json!("delegation.created"),
        json!([7]),
    ] {
        let body = json!({"url": "https://hooks.a.test/", "event_types": event_types});
        assert_eq!(app.post(Shows::Key(&owner), WEBHOOKS, &body).await.refusal(), (422, "invalid_request"), "{event_types}");
    }
    let both = app.post(Shows::Key(&owner), WEBHOOKS, &json!({})).await;
    assert_eq!(both.body["errors"].as_array().unwrap().len(), 2, "every fault at once: {}", both.body);
    let own_secret = json!({"url": "https://hooks.a.test/", "event_types": ["invite.claimed"], "secret": "whsec_mine"});
    assert_eq!(app.post(Shows::Key(&owner), WEBHOOKS, &own_secret).await.status, 422, "a secret is ours to mint");
    assert_eq!(app.count("SELECT count(*) FROM webhook_endpoints").await, 0);
}
