//! Disabling, enabling, deleting and testing endpoints.

use crate::test_app::{Credentials, Identified, Identity, Requests as _, TestApp, TestResponse, WEBHOOKS};
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) trait EndpointStates: Identified {
    async fn switch(&self, key: &str, endpoint: &TestResponse, disabled: bool) -> TestResponse {
        let path = format!("{WEBHOOKS}/{}", endpoint.text("id"));
        self.app().send(Method::PATCH, Credentials::Key(key), &path, json!({"disabled": disabled}).to_string()).await
    }

    async fn test_webhook(&self, key: &str, endpoint: &TestResponse) -> TestResponse {
        self.app().post(Credentials::Key(key), &format!("{WEBHOOKS}/{}/test", endpoint.text("id")), &json!({})).await
    }

    /// Returns the type and status of an endpoint's deliveries, oldest first.
    async fn logged(&self, key: &str, endpoint: &TestResponse) -> Vec<(String, String)> {
        let log = self.app().get(Credentials::Key(key), &format!("{WEBHOOKS}/{}/deliveries", endpoint.text("id"))).await.body;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        log.as_array().unwrap().iter().rev().map(|one| (text(&one["event_type"]), text(&one["status"]))).collect()
    }
}

impl EndpointStates for TestApp {}

fn stood(log: &[(&str, &str)]) -> Vec<(String, String)> {
    log.iter().map(|(kind, status)| ((*kind).to_owned(), (*status).to_owned())).collect()
}

#[tokio::test]
async fn disabling_an_endpoint_drops_pending_deliveries() {
    let app = Identity::open().await;
    let (org, owner) = app.owner_of("a.test").await;
    let endpoint = app.subscribe(&owner, &["delegation.created"]).await;
    let grant = async |name: &str| {
        let partner = app.platform(name).await.0;
        assert_eq!(app.grant(&owner, partner).await.status, 201);
    };
    grant("before").await;
    let disabled = app.switch(&owner, &endpoint, true).await;
    assert_eq!(disabled.status, 200, "{}", disabled.body);
    assert!(disabled.body["disabled_at"].is_string(), "{}", disabled.body);
    assert_eq!(app.switch(&owner, &endpoint, true).await.body, disabled.body, "repeating it changes nothing");
    assert_eq!(app.get(Credentials::Key(&owner), WEBHOOKS).await.body, json!([disabled.body]), "it stays in the list");
    grant("meanwhile").await;
    assert_eq!(app.test_webhook(&owner, &endpoint).await.refusal(), (409, "conflict"));
    let enabled = app.switch(&owner, &endpoint, false).await;
    assert_eq!((enabled.status, &enabled.body["disabled_at"]), (200, &Value::Null));
    grant("after").await;
    let expected = [("delegation.created", "dropped"), ("delegation.created", "pending")];
    assert_eq!(app.logged(&owner, &endpoint).await, stood(&expected));
    let waiting = "SELECT count(*) FROM webhook_queue WHERE status = 'pending'";
    assert_eq!(app.count(waiting).await, 1, "the row is dropped too");
    let trail: Vec<_> = app.audited(org).await.into_iter().filter(|action| action.starts_with("webhook.")).collect();
    assert_eq!(trail, ["webhook.created", "webhook.disabled", "webhook.enabled"]);
}

#[tokio::test]
async fn disabled_but_not_deleted_endpoints_count_for_the_limit() {
    let app = Identity::open().await;
    let (_, owner) = app.org("owner").await;
    let mut endpoints = Vec::new();
    for _ in 0..10 {
        endpoints.push(app.subscribe(&owner, &["delegation.created"]).await);
    }
    let another = json!({"url": "https://hooks.a.test/", "event_types": ["delegation.created"]});
    assert_eq!(app.switch(&owner, &endpoints[0], true).await.status, 200);
    let refused = app.post(Credentials::Key(&owner), WEBHOOKS, &another).await;
    assert_eq!(refused.refusal(), (409, "conflict"), "enabling it would exceed ten");
    let (_, other) = app.org("other").await;
    assert_eq!(app.subscribe(&other, &["delegation.created"]).await.status, 201, "other organizations' don't count");
    let deleted = format!("{WEBHOOKS}/{}", endpoints[0].text("id"));
    assert_eq!(app.delete(Credentials::Key(&owner), &deleted).await.status, 204);
    assert_eq!(app.get(Credentials::Key(&owner), WEBHOOKS).await.body.as_array().unwrap().len(), 9);
    for disabled in [true, false] {
        assert_eq!(app.switch(&owner, &endpoints[0], disabled).await.refusal(), (409, "conflict"));
    }
    assert_eq!(app.get(Credentials::Key(&owner), &deleted).await.status, 200, "it can still be shown");
    assert_eq!(app.post(Credentials::Key(&owner), WEBHOOKS, &another).await.status, 201);
}

#[tokio::test]
async fn test_events_go_only_to_the_tested_endpoint() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    let (tried, other) = (app.subscribe(&owner, &["invite.claimed"]).await, app.subscribe(&owner, &["invite.claimed"]).await);
    let sent = app.test_webhook(&owner, &tried).await;
    assert_eq!((sent.status, sent.text("event_type"), sent.text("status")), (202, "webhook.test", "pending"));
    assert_eq!(app.logged(&owner, &tried).await, stood(&[("webhook.test", "pending")]));
    assert_eq!(app.logged(&owner, &other).await, []);
    let told = &app.outbox(&tried).await[0];
    assert_eq!((&told["type"], &told["id"]), (&json!("webhook.test"), &sent.body["id"]));
    assert_eq!(told["data"], json!({"webhook": {"id": tried.text("id")}}));
    assert_eq!(app.audited(org).await.last().unwrap(), "webhook.tested");
    let subscribed = json!({"url": "https://hooks.a.test/", "event_types": ["webhook.test"]});
    assert_eq!(app.post(Credentials::Key(&owner), WEBHOOKS, &subscribed).await.refusal(), (422, "invalid_request"));
}
