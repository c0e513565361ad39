//! Webhooks from registration to verification: the receiver prints what the service sends, and `verify` accepts it.

use crate::terminal::{CommandOutput, Terminal};
use crate::test_service::Service;
use crate::webhook_listener::WebhookListener;
use crate::webhook_proxy::{Delivery, WebhookProxy};
use serde_json::Value;
use service_kit::testing::eventually;
use std::path::Path;

fn listen(terminal: &Terminal, secret: &Path, count: &str) -> WebhookListener {
    let secret = secret.to_str().unwrap();
    let words = ["webhook", "listen", "--secret-file", secret, "--listen", "127.0.0.1:0", "--count", count, "-o", "ndjson"];
    WebhookListener::start(terminal, &words)
}

/// Runs `webhook verify` on a delivery that the proxy recorded.
fn verify(terminal: &Terminal, secret: &Path, delivery: &Delivery, body: &str) -> CommandOutput {
    let (body, secret) = (terminal.file("body", body), secret.to_str().unwrap());
    let (signature, timestamp) = (delivery.header("x-svc-signature"), delivery.header("x-svc-timestamp"));
    let of = ["--secret-file", secret, "--signature", signature, "--timestamp", timestamp, "-o", "json"];
    terminal.run(&[&["webhook", "verify", body.to_str().unwrap()][..], &of].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn registers_tests_and_receives_webhooks() {
    let proxy = WebhookProxy::start().await;
    let service = Service::start_with(&proxy.settings()).await;
    let owner = service.terminal("OWNER_KEY");
    let url = proxy.url("/hook");
    let made = owner.run(&["webhook", "create", &url, "--event", "delegation.created", "-o", "json"]).json();
    let secret = owner.file("secret", made["secret"].as_str().unwrap());
    let listed = owner.run(&["webhook", "list", "-o", "json"]).json();
    assert_eq!((&listed[0]["id"], &listed[0]["secret"]), (&made["id"], &Value::Null), "the secret must be shown only once");

    let receiver = listen(&owner, &secret, "2");
    proxy.forward_to(&receiver.address);
    let tested = owner.run(&["webhook", "send-test", &url, "--wait", "-o", "json"]).json();
    assert_eq!((&tested["status"], &tested["event_type"]), (&"delivered".into(), &"webhook.test".into()), "{tested}");
    let granted = owner.run(&["delegation", "create", "--to", service.value("NETWORK_ORG_ID"), "-o", "json"]).json();
    let said = tokio::task::spawn_blocking(move || receiver.wait()).await.unwrap().ok();
    assert_eq!(said.stderr.lines().count(), 1, "no delivery may be rejected: {said:?}");
    let printed: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |n: usize, pointer: &str| printed[n].pointer(pointer).cloned().unwrap_or_default();
    assert_eq!((of(0, "/type"), of(0, "/id")), ("webhook.test".into(), tested["id"].clone()));
    assert_eq!((of(1, "/type"), of(1, "/data/delegation/id")), ("delegation.created".into(), granted["id"].clone()));

    let deliveries = eventually("both are logged as delivered", || async {
        let all = owner.run(&["webhook", "deliveries", &url, "-o", "json"]).json();
        let all = all.as_array().unwrap().clone();
        (all.len() == 2 && all.iter().all(|delivery| delivery["status"] == "delivered")).then_some(all)
    })
    .await;
    let ids: Vec<&Value> = deliveries.iter().map(|delivery| &delivery["id"]).collect();
    assert!(printed.iter().all(|delivery| ids.contains(&&delivery["id"])), "{deliveries:?}");

    let kept = proxy.deliveries();
    assert_eq!(kept.len(), 2, "each delivery must arrive once");
    for delivery in &kept {
        let checked = verify(&owner, &secret, delivery, &delivery.body).json();
        assert_eq!((&checked["verified"], &checked["type"]), (&true.into(), &delivery.header("x-svc-event-type").into()));
        let said = verify(&owner, &secret, delivery, &format!("{} ", delivery.body));
        assert!(said.code == 1 && said.stderr.contains("signature"), "a changed body must be rejected: {said:?}");
    }
    let said = verify(&owner, &owner.file("other", "whsec_of-somebody-else"), &kept[0], &kept[0].body);
    assert_eq!(said.code, 1, "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn test_delivery_fails_with_another_secret() {
    let proxy = WebhookProxy::start().await;
    let service = Service::start_with(&proxy.settings()).await;
    let owner = service.terminal("OWNER_KEY");
    let url = proxy.url("/hook");
    owner.run(&["webhook", "create", &url]).ok();
    let mut receiver = listen(&owner, &owner.file("secret", "whsec_of-another-endpoint"), "1");
    proxy.forward_to(&receiver.address);
    let said = owner.run(&["webhook", "send-test", &url, "--wait"]);
    assert!(said.code == 1 && said.stderr.contains("was not delivered") && said.stderr.contains("401"), "{said:?}");
    assert!(receiver.next_line().contains("Rejected a delivery with 401"));
    receiver.kill();

    let gone = owner.run(&["webhook", "send-test", "https://nobody.example/", "--wait"]);
    assert!(gone.code == 4 && gone.stderr.contains("webhook not found"), "{gone:?}");
}
