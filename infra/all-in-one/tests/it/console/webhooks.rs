//! A webhook endpoint is tried, paused and deleted from its page.

use super::Reader;
use crate::demo::{Demo, answer};
use serde_json::{Value, json};
use service_kit::testing::eventually;

fn home(demo: &Demo) -> String {
    format!("/console/o/{}", demo.env("OWNER_ORG_ID"))
}

async fn identity(demo: &Demo, path: &str) -> Value {
    demo.get(demo.env("OWNER_KEY"), &format!("/api/v1/identity/{path}")).await.body
}

#[tokio::test]
async fn an_endpoint_is_tried_paused_and_deleted_from_its_page() {
    let demo = Demo::start().await;
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let made = json!({"url": "https://receiver.example.net/telemetry", "event_types": ["delegation.created"]});
    let create = demo.client.post(demo.url("/api/v1/identity/webhooks")).header("x-api-key", demo.env("OWNER_KEY")).json(&made);
    let id = answer(create).await.body["id"].as_str().unwrap().to_owned();
    let path = format!("{}/webhooks/{id}", home(&demo));

    let page = owner.open(&path).await;
    let page = owner.press(&page, "/test", &[]).await;
    assert!(page.address == path && page.html.contains("webhook.test"), "{}", page.html);
    let sent = identity(&demo, &format!("webhooks/{id}/deliveries")).await;
    assert_eq!(sent.as_array().map(Vec::len), Some(1), "{sent}");
    eventually("the test failed", || async { identity(&demo, "webhooks").await[0]["last_attempt"].is_object().then_some(()) })
        .await;
    let list = owner.open(&format!("{}/webhooks", home(&demo))).await;
    assert!(list.html.contains("failing</span>") && list.html.contains("no public address"), "{}", list.html);

    let page = owner.press(&page, "/disable", &[]).await;
    assert!(page.html.contains("disabled") && !page.actions().iter().any(|action| action.ends_with("/test")), "{}", page.html);
    assert!(identity(&demo, &format!("webhooks/{id}")).await["disabled_at"].is_string());
    let list = owner.open(&format!("{}/webhooks", home(&demo))).await;
    assert!(list.html.contains("disabled</span>") && !list.html.contains("failing</span>"), "{}", list.html);
    let page = owner.press(&page, "/enable", &[]).await;
    assert!(page.actions().iter().any(|action| action.ends_with("/test")), "{}", page.html);
    assert!(identity(&demo, &format!("webhooks/{id}")).await["disabled_at"].is_null());
    let page = owner.press(&page, "/delete", &[]).await;
    assert!(page.address.ends_with("/webhooks") && !page.html.contains("receiver.example.net"), "{}", page.html);
    assert_eq!(identity(&demo, "webhooks").await, json!([]));
}
