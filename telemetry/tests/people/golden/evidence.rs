//! Golden output of the check of a signed report.

use super::transcript::Transcript;
use crate::test_service::{Service, wait_for_events};
use serde_json::{Value, json};
use service_kit::testing::client;
use sqlx::PgPool;

/// Registers a key in a manifest of an organization, as identity-api does after it fetched one.
async fn register(service: &Service, key: &Value) {
    let pool = PgPool::connect(service.value("DATABASE_URL")).await.unwrap();
    let public = signatures::PublicKey::from_multibase(key["publicKey"].as_str().unwrap()).unwrap();
    let statement = "WITH manifest AS (INSERT INTO manifests (organization_id, url, site, state, due_at, created_at) \
                     VALUES ($1::uuid, 'https://agent.test/m.json', 'test.agent', 'valid', 'infinity', now()) RETURNING id) \
                     INSERT INTO manifest_keys (manifest_id, organization_id, key_id, thumbprint, public_key, first_seen, last_seen) \
                     SELECT id, $1::uuid, 'k', $2, $3, now() - interval '1 day', now() FROM manifest";
    let insert =
        sqlx::query(statement).bind(service.value("AGENT_ORG_ID")).bind(public.thumbprint()).bind(&public.as_bytes()[..]);
    insert.execute(&pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_reports_match_golden_output() {
    let service = Service::start().await;
    let (owner, agent) = (service.terminal("OWNER_KEY"), service.terminal("AGENT_KEY"));
    let key = agent.run(&["sign", "keygen", "k.jwk", "--id", "k"]).ok().json();
    register(&service, &key).await;
    let body =
        json!({"events": [{"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "data": {"citation_type": "paraphrase"},
        "content_url": "https://www.example.com/1", "session_id": "0195f3a0-0000-7000-8000-000000000010"}]})
        .to_string();
    agent.file("body.json", &body);
    let url = format!("{}/events", service.url());
    let headers = agent.run(&["sign", "request", "--key", "k.jwk", "--key-id", "k", "--url", &url, "body.json"]).ok();
    let mut request = client().post(&url).body(body);
    for (name, value) in headers.stdout.lines().filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let sent = request.header("x-api-key", service.value("AGENT_KEY")).send().await.unwrap();
    assert!(sent.status().is_success(), "{}", sent.text().await.unwrap());
    wait_for_events(&owner, 1).await;
    let listed: Value = owner.run(&["events", "list", "--since", "2026-11-01", "-o", "json"]).json();
    let mut kept = Transcript::new("evidence");
    kept.hide(service.url(), "service");
    kept.hide(key["publicKey"].as_str().unwrap(), "public key");
    let input = headers.stdout.lines().find(|line| line.starts_with("signature-input")).unwrap();
    let parts = input.split(';').filter_map(|part| part.split_once('='));
    parts.filter(|(name, _)| ["created", "expires", "nonce"].contains(name)).for_each(|(name, value)| {
        kept.hide(value.trim_matches('"'), name);
    });
    kept.run(&owner, &["evidence", "verify", listed["items"][0]["event_id"].as_str().unwrap()]);
    kept.check();
}
