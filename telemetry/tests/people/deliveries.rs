//! An endpoint from its registration to a checked delivery: what the service sends is what the receiver prints and `verify` takes.

use crate::listening::Listening;
use crate::receiver::{Delivery, Proxy};
use crate::service::Service;
use crate::terminal::{Said, Terminal};
use serde_json::Value;
use service_kit::testing::eventually;
use std::path::Path;

fn listen(terminal: &Terminal, secret: &Path, count: &str) -> Listening {
    let secret = secret.to_str().unwrap();
    let words = ["webhook", "listen", "--secret-file", secret, "--listen", "127.0.0.1:0", "--count", count, "-o", "ndjson"];
    Listening::start(terminal, &words)
}

/// `webhook verify` of a delivery as the proxy kept it.
fn verify(terminal: &Terminal, secret: &Path, delivery: &Delivery, body: &str) -> Said {
    let (body, secret) = (terminal.file("body", body), secret.to_str().unwrap());
    let (signature, timestamp) = (delivery.header("x-svc-signature"), delivery.header("x-svc-timestamp"));
    let of = ["--secret-file", secret, "--signature", signature, "--timestamp", timestamp, "-o", "json"];
    terminal.run(&[&["webhook", "verify", body.to_str().unwrap()][..], &of].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_registered_tested_received_checked_and_told_of_what_happens() {
    let proxy = Proxy::start().await;
    let service = Service::start_with(&proxy.settings()).await;
    let owner = service.terminal("OWNER_KEY");
    let url = proxy.url("/hook");
    let made = owner.run(&["webhook", "create", &url, "--event", "delegation.created", "-o", "json"]).json();
    let secret = owner.file("secret", made["secret"].as_str().unwrap());
    let listed = owner.run(&["webhook", "list", "-o", "json"]).json();
    assert_eq!((&listed[0]["id"], &listed[0]["secret"]), (&made["id"], &Value::Null), "the secret is shown once");

    let receiver = listen(&owner, &secret, "2");
    proxy.pass_on_to(&receiver.address);
    let tested = owner.run(&["webhook", "send-test", &url, "--wait", "-o", "json"]).json();
    assert_eq!((&tested["status"], &tested["event_type"]), (&"delivered".into(), &"webhook.test".into()), "{tested}");
    let granted = owner.run(&["delegation", "create", "--to", service.value("NETWORK_ORG_ID"), "-o", "json"]).json();
    let said = tokio::task::spawn_blocking(move || receiver.ended()).await.unwrap().ok();
    assert_eq!(said.stderr.lines().count(), 1, "nothing was refused: {said:?}");
    let printed: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |n: usize, pointer: &str| printed[n].pointer(pointer).cloned().unwrap_or_default();
    assert_eq!((of(0, "/type"), of(0, "/id")), ("webhook.test".into(), tested["id"].clone()));
    assert_eq!((of(1, "/type"), of(1, "/data/delegation/id")), ("delegation.created".into(), granted["id"].clone()));

    let deliveries = eventually("both stand in the log as delivered", || async {
        let all = owner.run(&["webhook", "deliveries", &url, "-o", "json"]).json();
        let all = all.as_array().unwrap().clone();
        (all.len() == 2 && all.iter().all(|delivery| delivery["status"] == "delivered")).then_some(all)
    })
    .await;
    let ids: Vec<&Value> = deliveries.iter().map(|delivery| &delivery["id"]).collect();
    assert!(printed.iter().all(|delivery| ids.contains(&&delivery["id"])), "{deliveries:?}");

    let kept = proxy.deliveries();
    assert_eq!(kept.len(), 2, "each came once");
    for delivery in &kept {
        let checked = verify(&owner, &secret, delivery, &delivery.body).json();
        assert_eq!((&checked["verified"], &checked["type"]), (&true.into(), &delivery.header("x-svc-event-type").into()));
        let said = verify(&owner, &secret, delivery, &format!("{} ", delivery.body));
        assert!(said.code == 1 && said.stderr.contains("signature"), "another blank is another body: {said:?}");
    }
    let said = verify(&owner, &owner.file("other", "whsec_of-somebody-else"), &kept[0], &kept[0].body);
    assert_eq!(said.code, 1, "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_with_another_secret_refuses_and_the_test_says_so() {
    let proxy = Proxy::start().await;
    let service = Service::start_with(&proxy.settings()).await;
    let owner = service.terminal("OWNER_KEY");
    let url = proxy.url("/hook");
    owner.run(&["webhook", "create", &url]).ok();
    let mut receiver = listen(&owner, &owner.file("secret", "whsec_of-another-endpoint"), "1");
    proxy.pass_on_to(&receiver.address);
    let said = owner.run(&["webhook", "send-test", &url, "--wait"]);
    assert!(said.code == 1 && said.stderr.contains("was not delivered") && said.stderr.contains("401"), "{said:?}");
    assert!(receiver.next_line().contains("Rejected a delivery with 401"));
    receiver.kill();

    let gone = owner.run(&["webhook", "send-test", "https://nobody.example/", "--wait"]);
    assert!(gone.code == 4 && gone.stderr.contains("webhook not found"), "{gone:?}");
}
