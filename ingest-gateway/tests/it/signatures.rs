//! Signed reports: the result in the record, nonces, and keys that require signatures.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue must fail")]

use crate::harness::{Gateway, TestApp, event};
use crate::postgres_outages::gateway_and_database;
use flate2::Compression;
use flate2::write::GzEncoder;
use ingest_gateway::Limits;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::log::LogRecord;
use schemas::signature::SignatureResult;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{SeededOrg, TestResponse, send_request};
use signatures::content_telemetry::{Signer, sign_request};
use signatures::{PrivateKey, PublicKey, Request, verify_base};
use std::io::Write as _;
use uuid::Uuid;

const KEY_ID: &str = "agent-2026";

/// An agent whose manifest lists a key.
struct SignedAgent {
    org: SeededOrg,
    key: PrivateKey,
}

/// A signed request, which tests can change before they send it.
#[derive(Clone)]
struct SignedRequest {
    path: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl SignedRequest {
    async fn send(&self, gateway: &TestApp, api_key: &str) -> TestResponse {
        let request = gateway.post_request(self.path, api_key).body(self.body.clone());
        send_request(self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))).await
    }

    async fn accepted(&self, gateway: &TestApp, api_key: &str) {
        let response = self.send(gateway, api_key).await;
        assert_eq!(response.status, 201, "{} {:?}", response.body, self.headers);
    }

    fn without(&self, name: &str) -> Self {
        let headers = self.headers.iter().filter(|(known, _)| known != name).cloned().collect();
        Self { headers, ..self.clone() }
    }

    fn with(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.headers.push((name.to_owned(), value.to_owned()));
        changed
    }
}

async fn signed_agent(gateway: &TestApp) -> SignedAgent {
    let (org, key) = (gateway.seed().org("agent", OrgType::Agent).await, PrivateKey::generate());
    gateway.seed().list_key(org.id, KEY_ID, &key.public().thumbprint(), key.public().as_bytes()).await;
    SignedAgent { org, key }
}

impl SignedAgent {
    fn sign(&self, gateway: &TestApp, path: &'static str, body: &Value, nonce: &str) -> SignedRequest {
        self.sign_bytes(gateway, path, body.to_string().into_bytes(), &[], (nonce, now()))
    }

    fn sign_bytes(
        &self,
        gateway: &TestApp,
        path: &'static str,
        body: Vec<u8>,
        headers: &[(&str, &str)],
        (nonce, created): (&str, i64),
    ) -> SignedRequest {
        let target_uri = format!("{}{path}", gateway.server.url);
        let all = [&[("content-type", "application/json")], headers].concat();
        let request = Request { method: "POST", target_uri: &target_uri, headers: &all };
        let signer = Signer { key: &self.key, key_id: KEY_ID, created, nonce };
        let added = sign_request(&request, &body, &signer).unwrap().map(|(name, value)| (name.to_owned(), value));
        let own = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        SignedRequest { path, headers: own.chain(added).collect(), body }
    }
}

fn now() -> i64 {
    Clock::System.now().timestamp()
}

fn batch(id: &str) -> Value {
    json!({"events": [event("content_retrieved", json!({"id": id, "source_role": "edge"}))]})
}

/// Returns result and reason of a record's signature.
fn result(record: &LogRecord) -> (&'static str, &str) {
    let signature = record.signature.as_deref();
    (signature.map_or(SignatureResult::None, |of| of.result).as_str(), signature.map_or("", |of| &of.reason))
}

/// Returns the results by the id of the first event.
async fn results(gateway: &TestApp) -> Vec<(String, String)> {
    let records = gateway.log.all_records().await;
    let named = records.iter().map(|record| {
        let (result, reason) = result(record);
        (record.events[0].id.clone().unwrap(), format!("{result} {reason}").trim_end().to_owned())
    });
    let mut named: Vec<(String, String)> = named.collect();
    named.sort();
    named
}

#[tokio::test]
async fn s22_signature_results_are_recorded_with_reports() {
    let gateway = Gateway::start().await;
    let (agent, stranger) = (signed_agent(&gateway).await, gateway.seed().org("stranger", OrgType::Agent).await);
    let sign = |id: &str| agent.sign(&gateway, "/events", &batch(id), &format!("nonce of the report {id}"));
    let mut tampered = sign("e-tampered");
    tampered.body = batch("d-tampered").to_string().into_bytes();
    let old = agent.sign_bytes(
        &gateway,
        "/events",
        batch("c-stale").to_string().into_bytes(),
        &[],
        ("nonce of a stale report", now() - 301),
    );
    let other_key = SignedAgent { key: PrivateKey::generate(), org: gateway.seed().org("other", OrgType::Agent).await };
    let forged = other_key.sign(&gateway, "/events", &batch("f-forged"), "nonce of a forged report");
    let sent = [
        (sign("a-valid"), &agent.org.key, "valid"),
        (sign("b-unsigned").without("signature-input"), &agent.org.key, "none"),
        (old, &agent.org.key, "invalid stale"),
        (tampered, &agent.org.key, "invalid digest_mismatch"),
        (sign("e-malformed").with("signature-input", "ct=()"), &agent.org.key, "invalid malformed"),
        (forged, &agent.org.key, "invalid bad_signature"),
        (sign("g-incomplete").without("signature"), &agent.org.key, "invalid incomplete"),
        (sign("h-foreign"), &stranger.key, "invalid no_key"),
    ];
    let mut expected = Vec::new();
    for (request, key, result) in &sent {
        request.accepted(&gateway, key).await;
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        expected.push((body["events"][0]["id"].as_str().unwrap().to_owned(), (*result).to_owned()));
    }
    assert_eq!(results(&gateway).await, expected);
    let records = gateway.log.all_records().await;
    let proof = records
        .iter()
        .filter_map(|record| record.signature.as_ref()?.proof.as_ref())
        .find(|proof| proof.base.contains("a-valid"));
    let proof = proof.expect("the nonce is in the signature base");
    let signature: [u8; 64] = data_encoding::BASE64.decode(proof.signature.as_bytes()).unwrap().try_into().unwrap();
    assert!(verify_base(&proof.base, &signature, &PublicKey::from_multibase(&proof.public_key).unwrap()));
    assert_eq!(proof.public_key, agent.key.public().to_multibase());
    let version: Uuid = sqlx::query_scalar("SELECT id FROM manifest_keys").fetch_one(&gateway.stores.pool).await.unwrap();
    assert_eq!(proof.key_version, Some(version));
}

#[tokio::test]
async fn sessions_and_compressed_bodies_can_be_signed() {
    let gateway = Gateway::start().await;
    let agent = signed_agent(&gateway).await;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(batch("compressed").to_string().as_bytes()).unwrap();
    let encoding = [("content-encoding", "gzip")];
    let compressed =
        agent.sign_bytes(&gateway, "/events", gzip.finish().unwrap(), &encoding, ("nonce of a compressed report", now()));
    compressed.accepted(&gateway, &agent.org.key).await;
    let start = agent.sign(&gateway, "/sessions/start", &json!({"agent_id": "a"}), "nonce of a session start");
    let started = start.send(&gateway, &agent.org.key).await;
    assert_eq!(started.status, 201, "{}", started.body);
    let end = json!({"session_id": started.body["session_id"]});
    assert_eq!(
        agent.sign(&gateway, "/sessions/end", &end, "nonce of a session end").send(&gateway, &agent.org.key).await.status,
        200
    );
    let bulk = json!({"events": [event("content_cited", json!({}))]});
    agent.sign(&gateway, "/sessions/bulk", &bulk, "nonce of a session").accepted(&gateway, &agent.org.key).await;
    let records = gateway.log.all_records().await;
    assert_eq!(records.iter().map(result).collect::<Vec<_>>(), [("valid", ""); 4]);
}

/// A retry after an unknown outcome is the same request. Another request with the same nonce isn't, whichever gateway receives it.
#[tokio::test]
async fn nonces_can_be_used_only_once_across_gateways() {
    let gateway = Gateway::start().await;
    let (agent, other) = (signed_agent(&gateway).await, Gateway::beside(&gateway).await);
    // Events without an id get their identity from the Idempotency-Key, which no signature covers.
    let body = json!({"events": [event("content_retrieved", json!({"source_role": "edge"}))]});
    let signed = agent.sign(&gateway, "/events", &body, "nonce of a replayed report");
    let port = |gateway: &TestApp| gateway.server.url.rsplit_once(':').unwrap().1.to_owned();
    assert_ne!(port(&gateway), port(&other));
    let host = gateway.server.url.trim_start_matches("http://");
    let sent = [
        (&gateway, "one", "valid"),
        (&other, "one", "valid"),
        (&other, "two", "invalid replayed"),
        (&gateway, "two", "invalid replayed"),
        (&gateway, "one", "valid"),
    ];
    let mut expected = Vec::new();
    for (at, idempotency_key, result) in sent {
        let request = signed.with("idempotency-key", idempotency_key).with("host", host);
        request.accepted(at, &agent.org.key).await;
        expected.push(result);
    }
    // Another body with the same nonce, correctly signed.
    let reused = agent.sign(&gateway, "/events", &batch("other"), "nonce of a replayed report");
    reused.accepted(&gateway, &agent.org.key).await;
    expected.push("invalid replayed");
    let mut records = gateway.log.all_records().await;
    records.sort_by_key(|record| record.received_at_us);
    let found: Vec<String> =
        records.iter().map(result).map(|(result, reason)| format!("{result} {reason}").trim_end().to_owned()).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn replaced_keys_can_sign_until_they_expire() {
    let gateway = Gateway::start().await;
    let mut agent = signed_agent(&gateway).await;
    let next = PrivateKey::generate();
    let send = async |agent: &SignedAgent, id: &str| {
        let request = agent.sign(&gateway, "/events", &batch(id), &format!("nonce of the report {id}"));
        request.accepted(&gateway, &agent.org.key).await;
    };
    send(&agent, "a-first").await;
    let end = "UPDATE manifest_keys SET ended_at = now() WHERE organization_id = $1";
    sqlx::query(end).bind(agent.org.id.0).execute(&gateway.stores.pool).await.unwrap();
    gateway.seed().list_key(agent.org.id, KEY_ID, &next.public().thumbprint(), next.public().as_bytes()).await;
    // Changes of keys take effect within a second.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    send(&agent, "b-ended").await;
    agent.key = next;
    send(&agent, "c-next").await;
    let expire = "UPDATE manifest_keys SET expires = now() WHERE organization_id = $1 AND ended_at IS NULL";
    sqlx::query(expire).bind(agent.org.id.0).execute(&gateway.stores.pool).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    send(&agent, "d-expired").await;
    let found: Vec<String> = results(&gateway).await.into_iter().map(|(_, result)| result).collect();
    assert_eq!(found, ["valid", "invalid bad_signature", "valid", "invalid expired_key"]);
}

async fn require_signature(gateway: &TestApp, org: OrgId) {
    let set = "UPDATE api_keys SET require_signature = true WHERE organization_id = $1";
    sqlx::query(set).bind(org.0).execute(&gateway.stores.pool).await.unwrap();
}

#[tokio::test]
async fn keys_can_require_signatures() {
    let gateway = Gateway::start().await;
    let agent = signed_agent(&gateway).await;
    let key = &agent.org.key;
    let session = gateway.start_session(key, &json!({})).await;
    require_signature(&gateway, agent.org.id).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let refused = |response: TestResponse| (response.status, response.faults());
    let expected = |reason: &str| (401, vec![format!("Signature:{reason}")]);
    let body = json!({"events": [event("content_retrieved", json!({"source_role": "edge"}))]});
    for (path, body) in [
        ("/events", &body),
        ("/events", &json!({"events": "unreadable"})),
        ("/sessions/start", &json!({})),
        ("/sessions/end", &json!({"session_id": session})),
        ("/sessions/bulk", &json!({"events": []})),
        ("/drains/ndjson", &json!({})),
    ] {
        assert_eq!(refused(gateway.post(key, path, body).await), expected("none"), "{path}");
    }
    let signed = agent.sign(&gateway, "/events", &body, "nonce of a required one");
    assert_eq!(refused(signed.without("signature").send(&gateway, key).await), expected("incomplete"));
    let mut tampered = signed.clone();
    tampered.body.push(b' ');
    assert_eq!(refused(tampered.send(&gateway, key).await), expected("digest_mismatch"));
    assert_eq!(gateway.log.record_count(), 1, "only the session");
    signed.accepted(&gateway, key).await;
    signed.accepted(&gateway, key).await;
    assert_eq!(refused(signed.with("idempotency-key", "another").send(&gateway, key).await), expected("replayed"));
    assert_eq!(gateway.log.record_count(), 3);
    let token = gateway.post(key, "/click-tokens", &json!({"session_id": session, "content_url": "https://a.test/"})).await;
    assert_eq!(token.status, 201, "a click token isn't a report");
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_have_no_result_without_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, database) = gateway_and_database(folder.path()).await;
    let (agent, strict) = (signed_agent(&gateway).await, signed_agent(&gateway).await);
    require_signature(&gateway, strict.org.id).await;
    for agent in [&agent, &strict] {
        agent.sign(&gateway, "/events", &batch("a-before"), "nonce before the outage").accepted(&gateway, &agent.org.key).await;
    }
    database.pause();
    agent.sign(&gateway, "/events", &batch("b-during"), "nonce in the outage").accepted(&gateway, &agent.org.key).await;
    let refused =
        strict.sign(&gateway, "/events", &batch("c-refused"), "nonce in the outage").send(&gateway, &strict.org.key).await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    database.resume();
    let results: Vec<String> = results(&gateway).await.into_iter().map(|(_, result)| result).collect();
    assert_eq!(results, ["valid", "valid", "none unchecked"]);
}

#[tokio::test]
async fn nonces_above_the_budget_are_unchecked() {
    // Two rows with nonces.
    let gateway = Gateway::start_with(Limits { owner_bytes: 2_500, ..Limits::default() }).await;
    let (org, key) = (gateway.seed().owner_of("a.test").await, PrivateKey::generate());
    gateway.seed().list_key(org.id, KEY_ID, &key.public().thumbprint(), key.public().as_bytes()).await;
    let owner = SignedAgent { org, key };
    let signed = |nonce: &str| owner.sign(&gateway, "/events", &batch(nonce), nonce);
    for nonce in ["a nonce of 16 letters", "b nonce of 16 letters", "c nonce of 16 letters"] {
        signed(nonce).accepted(&gateway, &owner.org.key).await;
    }
    let results: Vec<String> = results(&gateway).await.into_iter().map(|(_, result)| result).collect();
    assert_eq!(results, ["valid", "valid", "none unchecked"]);
    require_signature(&gateway, owner.org.id).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(signed("d nonce of 16 letters").send(&gateway, &owner.org.key).await.status, 429);
}
