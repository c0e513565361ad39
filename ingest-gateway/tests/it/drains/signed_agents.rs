//! Agents that sign their fetches: key sets are fetched in the background, and the result is in the record.

use super::send_log;
use crate::harness::{Gateway, TestApp};
use data_encoding::BASE64;
use schemas::identity::OrgType;
use schemas::signature::{RecordedSignature, SignatureResult};
use serde_json::{Value, json};
use service_kit::settings::WebhookSettings;
use service_kit::testing::{DnsRecord, TestAuthority, TestDns, TestReceiver, eventually};
use signatures::{PrivateKey, PublicKey, verify_base};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// 2026-11-01T10:00:00Z.
const AT: i64 = 1_793_527_200;
const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";

/// Path, response head without a length, and body.
type CannedResponse = (&'static str, String, String);

/// A server whose response to each path can be changed.
struct Directories {
    receiver: TestReceiver,
    dns: TestDns,
    pem: NamedTempFile,
    responses: Arc<Mutex<Vec<CannedResponse>>>,
}

impl Directories {
    async fn start() -> Self {
        let (authority, pem) = (TestAuthority::new(), NamedTempFile::new().unwrap());
        std::fs::write(pem.path(), &authority.pem).unwrap();
        let responses: Arc<Mutex<Vec<CannedResponse>>> = Arc::default();
        let known = Arc::clone(&responses);
        let receiver = TestReceiver::start(authority.server_for(&["agent.test"]), move |mut stream| {
            let known = Arc::clone(&known);
            async move {
                let mut head = [0; 4_096];
                let read = stream.read(&mut head).await.unwrap_or_default();
                let asked = String::from_utf8_lossy(&head[..read]).into_owned();
                let found = known.lock().unwrap().iter().find(|(path, ..)| asked.contains(&format!("GET {path} "))).cloned();
                let Some((_, head, body)) = found else { return std::future::pending().await };
                let response = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                let _ = stream.write_all(response.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        let dns = TestDns::start(|_| vec![DnsRecord::Address(Ipv4Addr::LOCALHOST.into())]).await;
        Self { receiver: receiver.await, dns, pem, responses }
    }

    fn settings(&self) -> WebhookSettings {
        WebhookSettings {
            webhook_allow: format!("agent.test:{}", self.receiver.address.port()).parse().unwrap(),
            webhook_extra_ca: Some(self.pem.path().to_owned()),
            dns_server: Some(self.dns.address),
        }
    }

    fn origin(&self) -> String {
        format!("https://agent.test:{}", self.receiver.address.port())
    }

    fn serve(&self, path: &'static str, head: &str, keys: &[PublicKey]) {
        let jwk =
            |key: &PublicKey| json!({"kty": "OKP", "crv": "Ed25519", "x": data_encoding::BASE64URL_NOPAD.encode(key.as_bytes())});
        let body = json!({"keys": keys.iter().map(jwk).collect::<Vec<_>>()}).to_string();
        let mut responses = self.responses.lock().unwrap();
        responses.retain(|(known, ..)| *known != path);
        responses.push((path, head.to_owned(), body));
    }
}

/// Returns a line of a fetch that the key signed for the host `signed_host`.
fn line(id: &str, key: &PrivateKey, key_set: &str, signed_host: &str, status: u16) -> Value {
    let member = format!("\"{key_set}\"");
    let parameters = format!(
        "(\"@authority\" \"signature-agent\";key=\"sig\");created={AT};expires={};keyid=\"{}\";alg=\"ed25519\";nonce=\"n\";tag=\"web-bot-auth\"",
        AT + 60,
        key.public().thumbprint()
    );
    let base =
        format!("\"@authority\": {signed_host}\n\"signature-agent\";key=\"sig\": {member}\n\"@signature-params\": {parameters}");
    json!({"timestamp": "2026-11-01T10:00:01Z", "host": "a.test", "url": format!("/{id}?x=1"), "method": "GET", "status": status,
        "user_agent": super::BOT, "request_id": id, "signature_agent": format!("sig={member}"),
        "signature_input": format!("sig={parameters}"), "signature": format!("sig=:{}:", BASE64.encode(&key.sign(base.as_bytes())))})
}

async fn send(gateway: &TestApp, key: &str, lines: &[Value]) -> Vec<Option<RecordedSignature>> {
    let before = usize::try_from(gateway.log.record_count()).unwrap();
    let log: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let taken = send_log(gateway, "ndjson", key, log).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let records = gateway.log.records(before + 1).await;
    let record = records.into_iter().max_by_key(|record| record.received_at_us).unwrap();
    let events = record.events.into_iter().map(|event| event.signature);
    events
        .chain(record.failed_fetches.into_iter().map(|fetch| fetch.signature))
        .map(|signature| signature.map(|of| *of))
        .collect()
}

fn shown(signature: &Option<RecordedSignature>) -> String {
    let Some(signature) = signature else { return "none".to_owned() };
    [signature.result.as_str(), &signature.reason, &signature.signed_by].join(" ").trim_end().to_owned()
}

/// Sends lines until one has this result.
async fn becomes(gateway: &TestApp, api_key: &str, result: &str, line: impl Fn(usize) -> Value) {
    let attempt = AtomicUsize::new(0);
    eventually("the key set is known", async || {
        let line = line(attempt.fetch_add(1, Ordering::Relaxed));
        (shown(&send(gateway, api_key, &[line]).await[0]) == result).then_some(())
    })
    .await;
}

#[tokio::test]
async fn signed_fetches_are_verified_with_the_agents_key_set() {
    let directories = Directories::start().await;
    let gateway = Gateway::start_fetching(directories.settings()).await;
    let api_key = gateway.seed().org("network", OrgType::Platform).await.key;
    let (key, other, origin) = (PrivateKey::generate(), PrivateKey::generate(), directories.origin());
    let good = format!("200 OK\r\ncontent-type: {MEDIA_TYPE}; charset=utf-8");
    directories.serve("/keys", &good, &[key.public()]);
    directories.serve("/page", "200 OK\r\ncontent-type: application/json", &[key.public()]);
    directories.serve("/missing", &format!("404 Not Found\r\ncontent-type: {MEDIA_TYPE}"), &[key.public()]);
    directories.serve("/moved", &format!("302 Found\r\nlocation: {origin}/keys\r\ncontent-type: {MEDIA_TYPE}"), &[key.public()]);
    // The server doesn't respond for /slow.
    let of = |id: &str, path: &str| line(id, &key, &format!("{origin}{path}"), "a.test", 200);
    let slow: Vec<Value> = (0..6).map(|n| of(&format!("slow-{n}"), &format!("/slow-{n}"))).collect();
    let began = std::time::Instant::now();
    let first = send(&gateway, &api_key, &[slow, vec![of("first", "/keys")]].concat()).await;
    assert!(began.elapsed().as_secs() < 4, "a line waits for a key set");
    assert!(first.iter().all(|signature| shown(signature) == "none unchecked"), "{first:?}");
    for path in ["/page", "/missing", "/moved"] {
        send(&gateway, &api_key, &[of(&path[1..], path)]).await;
    }
    let valid = format!("valid  {origin}");
    becomes(&gateway, &api_key, &valid, |n| of(&format!("again-{n}"), "/keys")).await;

    let mut unsigned = of("claim", "/keys");
    unsigned.as_object_mut().unwrap().retain(|name, _| !["signature", "signature_input"].contains(&name.as_str()));
    let mut tampered = of("tampered", "/keys");
    tampered["signature_input"] = tampered["signature_input"].as_str().unwrap().replace("nonce=\"n\"", "nonce=\"m\"").into();
    let mut late = of("late", "/keys");
    late["timestamp"] = "2026-11-01T10:02:00Z".into();
    let lines = [
        of("fetch", "/keys"),
        unsigned,
        tampered,
        late,
        line("other-host", &key, &format!("{origin}/keys"), "b.test", 200),
        line("other-key", &other, &format!("{origin}/keys"), "a.test", 200),
        of("not-a-directory", "/page"),
        of("not-found", "/missing"),
        of("redirected", "/moved"),
        line("refused", &key, &format!("{origin}/keys"), "a.test", 404),
    ];
    let found = send(&gateway, &api_key, &lines).await;
    let expected = [
        valid.as_str(),
        "none",
        "invalid bad_signature",
        "invalid stale",
        "invalid bad_signature",
        "invalid no_key",
        "none unchecked",
        "none unchecked",
        "none unchecked",
        valid.as_str(),
    ];
    assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
    let proof = found[0].as_ref().unwrap().proof.as_ref().unwrap();
    let signature: [u8; 64] = BASE64.decode(proof.signature.as_bytes()).unwrap().try_into().unwrap();
    assert!(verify_base(&proof.base, &signature, &PublicKey::from_multibase(&proof.public_key).unwrap()));
    assert_eq!(found[0].as_ref().unwrap().result, SignatureResult::Valid);

    // Another gateway has the copy from PostgreSQL, although the server fails now.
    directories.serve("/keys", "500 Error", &[]);
    let beside = Gateway::start_fetching_on(gateway.stores.clone(), directories.settings()).await;
    becomes(&beside, &api_key, &valid, |n| of(&format!("beside-{n}"), "/keys")).await;
}

/// The guard for tenants' addresses applies: only public servers, over HTTPS.
#[tokio::test]
async fn s5_key_sets_on_internal_addresses_are_not_fetched() {
    let (directories, canary) = (Directories::start().await, TestReceiver::canary().await);
    // Every name resolves to this machine, and none is allowed.
    let settings = WebhookSettings { webhook_allow: "".parse().unwrap(), ..directories.settings() };
    let gateway = Gateway::start_fetching(settings).await;
    let (key, api_key) = (PrivateKey::generate(), gateway.seed().org("network", OrgType::Platform).await.key);
    let port = canary.address.port();
    let lines: Vec<Value> = [
        format!("https://agent.example:{port}/keys"),
        format!("https://127.0.0.1:{port}/keys"),
        format!("https://localhost:{port}/keys"),
        "https://internal.example/keys".to_owned(),
        format!("http://agent.example:{port}/keys"),
    ]
    .iter()
    .enumerate()
    .map(|(n, key_set)| line(&format!("{n}"), &key, key_set, "a.test", 200))
    .collect();
    let found = send(&gateway, &api_key, &lines).await;
    let shown: Vec<String> = found.iter().map(shown).collect();
    assert_eq!(shown, ["none unchecked", "none unchecked", "none unchecked", "none unchecked", "invalid unsupported"]);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!((canary.connects(), directories.receiver.connects()), (0, 0));
}
