//! Webhooks end to end: create an endpoint over HTTP, deliver a delegation event, verify its signature, redeliver it and rotate the secret,
//! with a receiver on the developer's machine.

use crate::demo::{Demo, DemoApp};
use reqwest::Method;
use schemas::webhook::verify::{Delivery, Receiver, Rejection};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{TestAuthority, TestReceiver, TestResponse, eventually, send_request};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

const IDENTITY: &str = "/api/v1/identity";

/// Path, headers and body of a request.
pub(crate) type ReceivedRequest = (String, HashMap<String, String>, Vec<u8>);

pub(crate) async fn read(stream: &mut TlsStream<TcpStream>) -> Option<ReceivedRequest> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let headers: HashMap<String, String> =
        head.lines().filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some((path, headers, body))
}

/// Requests that a receiver got.
pub(crate) type ReceivedRequests = Arc<Mutex<Vec<ReceivedRequest>>>;

/// Starts a receiver on `localhost` that accepts everything.
pub(crate) async fn receiver(authority: &TestAuthority) -> (TestReceiver, ReceivedRequests) {
    let letters = ReceivedRequests::default();
    let kept = Arc::clone(&letters);
    let receiver = TestReceiver::start(authority.server_for(&["localhost"]), move |mut stream| {
        let kept = Arc::clone(&kept);
        async move {
            let Some(letter) = read(&mut stream).await else { return };
            kept.lock().unwrap().push(letter);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    (receiver, letters)
}

struct WebhookApp {
    demo: DemoApp,
    received: ReceivedRequests,
    receiver: TestReceiver,
    /// The proxy named in the environment.
    canary: TestReceiver,
    _authority: tempfile::NamedTempFile,
}

impl WebhookApp {
    /// Starts a service that may call `localhost`, which two settings permit, uses the system's DNS, and has a proxy in its environment.
    async fn begin() -> Self {
        let (authority, canary) = (TestAuthority::new(), TestReceiver::canary().await);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &authority.pem).unwrap();
        let (receiver, letters) = receiver(&authority).await;
        let proxy = format!("http://{}", canary.address);
        let mut settings = vec![
            ("WEBHOOK_ALLOW", format!("localhost:{}", receiver.address.port())),
            ("WEBHOOK_EXTRA_CA", file.path().display().to_string()),
        ];
        settings.extend(["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].map(|name| (name, proxy.clone())));
        let demo = Demo::start_with(&settings).await;
        Self { demo, received: letters, receiver, canary, _authority: file }
    }

    async fn ask(&self, method: Method, key: &str, path: &str, body: Value) -> TestResponse {
        let request = self.demo.request(method, &format!("{IDENTITY}{path}"), self.demo.env(key));
        let request = request.header("content-type", "application/json");
        send_request(if body.is_null() { request } else { request.body(body.to_string()) }).await
    }

    async fn subscribe(&self, key: &str, path: &str) -> TestResponse {
        let url = format!("https://localhost:{}{path}", self.receiver.address.port());
        let body = json!({"url": url, "event_types": ["delegation.created", "delegation.revoked"]});
        self.ask(Method::POST, key, "/webhooks", body).await.expect(201)
    }

    /// Waits for `count` requests to a path and returns them.
    async fn wait_for_requests(&self, path: &str, count: usize) -> Vec<ReceivedRequest> {
        eventually(&format!("{count} deliveries arrive at {path}"), || async {
            let letters: Vec<ReceivedRequest> =
                self.received.lock().unwrap().iter().filter(|letter| letter.0 == path).cloned().collect();
            (letters.len() >= count).then_some(letters)
        })
        .await
    }
}

pub(crate) fn accept(secret: &str, (_, headers, body): &ReceivedRequest) -> Result<Delivery, Rejection> {
    Receiver::new(secret).accept(|name| headers.get(name).map(String::as_str), body, Clock::System.now())
}

#[tokio::test]
async fn v15_v3_delivers_to_local_receivers_without_proxy() {
    let told = WebhookApp::begin().await;
    let (owners, networks) = (told.subscribe("OWNER_KEY", "/owner").await, told.subscribe("NETWORK_KEY", "/network").await);
    let (owner, network) = (told.demo.env("OWNER_ORG_ID").to_owned(), told.demo.env("NETWORK_ORG_ID").to_owned());
    let granted = told.ask(Method::POST, "OWNER_KEY", "/delegations", json!({"grantee_org_id": network})).await;
    assert_eq!(granted.status, 201, "{}", granted.body);
    let delegation = json!({
        "id": granted.body["id"], "grantor_org_id": owner, "grantee_org_id": network, "scopes": ["telemetry:read"],
    });
    let mut ids = Vec::new();
    for (path, endpoint) in [("/owner", &owners), ("/network", &networks)] {
        let letter = told.wait_for_requests(path, 1).await.remove(0);
        let delivery = accept(endpoint.body["secret"].as_str().unwrap(), &letter).unwrap();
        let body: Value = serde_json::from_slice(&letter.2).unwrap();
        let expected = json!({
            "id": delivery.id(), "type": "delegation.created", "created_at": granted.body["created_at"],
            "data": {"delegation": delegation},
        });
        assert_eq!(body, expected, "not the documented object");
        ids.push(delivery.id().to_string());
    }
    assert_ne!(ids[0], ids[1], "endpoints must have separate deliveries");

    let hook = format!("/webhooks/{}", owners.body["id"].as_str().unwrap());
    let logged = eventually("the log says so", || async {
        let logged = told.ask(Method::GET, "OWNER_KEY", &format!("{hook}/deliveries?status=delivered"), Value::Null).await.body;
        logged.as_array().filter(|logged| logged.len() == 1).map(|logged| logged[0].clone())
    })
    .await;
    assert_eq!(
        (logged["id"].as_str(), &logged["attempts"], &logged["last_attempt"]["status_code"]),
        (Some(ids[0].as_str()), &json!(1), &json!(204))
    );

    let rotated = told.ask(Method::POST, "OWNER_KEY", &format!("{hook}/rotate-secret"), Value::Null).await;
    assert_eq!(rotated.status, 200, "{}", rotated.body);
    let again = told.ask(Method::POST, "OWNER_KEY", &format!("{hook}/deliveries/{}/redeliver", ids[0]), Value::Null).await;
    assert_eq!(again.status, 202, "{}", again.body);
    let letters = told.wait_for_requests("/owner", 2).await;
    assert_eq!((&letters[1].2, &letters[1].1["x-svc-delivery-id"]), (&letters[0].2, &ids[0]), "not the same delivery");
    assert_eq!(
        accept(rotated.body["secret"].as_str().unwrap(), &letters[1]).map(|delivery| delivery.id().to_string()),
        Ok(ids[0].clone())
    );
    assert_eq!(
        accept(owners.body["secret"].as_str().unwrap(), &letters[1]),
        Err(Rejection::Forged),
        "the old secret signs nothing"
    );

    assert_eq!(told.ask(Method::DELETE, "OWNER_KEY", &hook, Value::Null).await.status, 204);
    let path = format!("/delegations/{}", granted.body["id"].as_str().unwrap());
    assert_eq!(told.ask(Method::DELETE, "OWNER_KEY", &path, Value::Null).await.status, 200);
    told.wait_for_requests("/network", 2).await;
    assert_eq!(told.wait_for_requests("/owner", 2).await.len(), 2, "a deleted endpoint got a delivery");
    assert_eq!(told.canary.connects(), 0, "the proxy was used");
    let said = told.demo.process.stdout() + &told.demo.process.stderr();
    assert!(said.contains("WEBHOOK_ALLOW permits webhook targets") && said.contains("WEBHOOK_EXTRA_CA adds a trusted"), "{said}");
    assert!(!said.contains("whsec_"), "a secret was logged");
}
