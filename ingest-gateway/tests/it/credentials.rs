//! Credentials for reporting: keys, scopes and verified hosts.

use crate::harness::{Credentials, Gateway, TestApp, head, retrieval, send_request};
use chrono::TimeDelta;
use ingest_gateway::Limits;
use reqwest::Method;
use schemas::identity::{DrainProvider, OrgType, Scope};
use schemas::secrets::{PlainApiKey, PlainUserSession};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn batch() -> Value {
    json!({"events": [retrieval("https://www.a.test/x")]})
}

#[tokio::test]
async fn invalid_credentials_get_the_same_401() {
    let gateway = Gateway::start().await;
    let revoked = gateway.seed().org("gone", OrgType::Platform).await;
    gateway.seed().revoke_keys(revoked.id).await;
    let live = gateway.seed().org("live", OrgType::Platform).await;
    let typo = live.key.replace(&live.key[20..21], if &live.key[20..21] == "x" { "y" } else { "x" });
    let bad = [
        PlainApiKey::generate(OrgType::Platform).reveal().to_owned(),
        revoked.key,
        typo,
        String::new(),
        "svc_pk_".to_owned(),
        live.key.to_lowercase() + "x",
        "x".repeat(8_000),
    ];
    let without_id = |mut body: Value| {
        body["request_id"].take();
        body
    };
    let missing = gateway.send(Method::POST, Credentials::Nothing, "/events", batch().to_string()).await;
    assert_eq!(missing.status, 401);
    assert_eq!(missing.body["code"], "unauthenticated");
    let expected = without_id(missing.body);
    for key in bad {
        let refused = gateway.report(&key, &batch()).await;
        assert_eq!(refused.status, 401, "{key}");
        assert_eq!(without_id(refused.body), expected, "{key}");
        assert_eq!(refused.headers["www-authenticate"], "ApiKey, Bearer");
    }
    let twice = gateway.post_request("/events", &live.key).header("x-api-key", &live.key).body(batch().to_string());
    assert_eq!(send_request(twice).await.status, 401, "two key headers");
    let session = gateway
        .post_request("/events", Credentials::Nothing)
        .bearer_auth(PlainUserSession::generate().reveal())
        .body(batch().to_string());
    assert_eq!(send_request(session).await.status, 401, "a user session is not a key");
    let bearer = gateway.post_request("/events", Credentials::Nothing).bearer_auth(&live.key).body(batch().to_string());
    assert_eq!(send_request(bearer).await.status, 401, "a key is not a bearer token");
    assert_eq!(gateway.report(&live.key, &batch()).await.status, 201, "the same request with a valid key");
}

#[tokio::test]
async fn x19_accepts_only_one_plain_key_header() {
    let gateway = Gateway::start().await;
    let key = gateway.key("live", OrgType::Platform).await;
    let other = gateway.key("other", OrgType::Platform).await;
    let bytes = |text: &[u8]| reqwest::header::HeaderValue::from_bytes(text).expect("the bytes are a valid header value");
    for value in [
        format!("{key}, {other}"),
        format!("{key},{key}"),
        format!("{key};x"),
        format!("{key} x"),
        format!("\u{e9}{key}"),
        format!("ApiKey {key}"),
    ] {
        let request = gateway
            .post_request("/events", Credentials::Nothing)
            .header("x-api-key", bytes(value.as_bytes()))
            .body(batch().to_string());
        assert_eq!(send_request(request).await.status, 401, "{value}");
    }
    for pair in [[&key, &other], [&other, &key], [&key, &String::new()]] {
        let request = pair
            .into_iter()
            .fold(gateway.post_request("/events", Credentials::Nothing), |request, value| request.header("x-api-key", value));
        assert_eq!(send_request(request.body(batch().to_string())).await.status, 401, "neither key of the two is used");
    }
    assert_eq!(gateway.log.record_count(), 0);
}

/// `service_kit::auth` tests that both use the same code path.
#[tokio::test]
async fn x21_unknown_and_revoked_keys_get_the_same_response() {
    let gateway = Gateway::start().await;
    let revoked = gateway.seed().org("gone", OrgType::Platform).await;
    gateway.seed().revoke_keys(revoked.id).await;
    let unknown = PlainApiKey::generate(OrgType::Platform).reveal().to_owned();
    let mut seen = std::collections::BTreeSet::new();
    for key in [&unknown, &revoked.key].repeat(20) {
        let mut refused = gateway.report(key, &batch()).await;
        refused.body["request_id"].take();
        let headers: Vec<_> = refused.headers.keys().map(ToString::to_string).collect();
        seen.insert((refused.status, headers, refused.body.to_string()));
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn e2_owners_report_only_for_verified_hosts() {
    let gateway = Gateway::start().await;
    let owner = gateway.seed().owner_of("a.test").await;
    let other = gateway.seed().owner_of("blog.a.test").await;
    for own in ["https://a.test/", "http://WWW.A.test.:8080/x", "https://x.y.a.test/"] {
        let accepted = gateway.report(&owner.key, &json!({"events": [retrieval(own)]})).await;
        assert_eq!(accepted.status, 201, "{own}: {}", accepted.body);
    }
    let before = gateway.log.record_count();
    for foreign in
        ["https://b.test/", "https://nota.test/", "https://a.test.evil.test/", "https://blog.a.test/", "https://127.0.0.1/"]
    {
        let mixed = json!({"events": [retrieval("https://a.test/"), retrieval(foreign)]});
        let refused = gateway.report(&owner.key, &mixed).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (403, Some("forbidden")), "{foreign}");
    }
    let only_id = json!({"events": [{"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "origin", "content_id": "doi:1"}]});
    assert_eq!(gateway.report(&owner.key, &only_id).await.status, 403);
    assert_eq!(gateway.log.record_count(), before, "a rejected request leaves no record");
    assert_eq!(gateway.report(&other.key, &json!({"events": [retrieval("https://blog.a.test/")]})).await.status, 201);
}

/// Statuses of every route for every credential, with an empty object as the body (S3).
pub(crate) const GOLDEN: [(&str, [u16; 9]); 5] = [
    // none, unknown, revoked, session, expired session, no scope, owner, platform, agent
    ("/events", [401, 401, 401, 401, 401, 403, 422, 422, 422]),
    ("/sessions/start", [401, 401, 401, 401, 401, 403, 201, 201, 201]),
    ("/sessions/end", [401, 401, 401, 401, 401, 403, 422, 422, 422]),
    ("/sessions/bulk", [401, 401, 401, 401, 401, 403, 201, 201, 201]),
    ("/click-tokens", [401, 401, 401, 401, 401, 403, 403, 422, 422]),
];

/// The same for providers' log routes.
const OF_PROVIDERS: [(&str, [u16; 9]); 2] =
    [("/drains/{provider}", [401, 401, 401, 401, 401, 403, 200, 200, 200]), ("/.well-known/fastly/logging/challenge", [405; 9])];

#[tokio::test]
async fn s3_every_write_route_checks_every_credential() {
    let gateway = Gateway::start().await;
    let seed = gateway.seed();
    let (owner, platform) = (seed.owner_of("a.test").await, seed.org("platform", OrgType::Platform).await);
    let (agent, gone) = (seed.org("agent", OrgType::Agent).await, seed.org("gone", OrgType::Agent).await);
    seed.revoke_keys(gone.id).await;
    let reader =
        seed.key(platform.id, OrgType::Platform, &[Scope::TelemetryRead, Scope::IdentityRead, Scope::IdentityWrite]).await;
    let unknown = PlainApiKey::generate(OrgType::Agent).reveal().to_owned();
    let session = seed.session("person@a.test", TimeDelta::days(1)).await;
    let expired = seed.session("late@a.test", TimeDelta::seconds(-1)).await;
    let credentials: [(&str, &str); 9] = [
        ("x-none", "x"),
        ("x-api-key", &unknown),
        ("x-api-key", &gone.key),
        ("authorization", &format!("Bearer {session}")),
        ("authorization", &format!("Bearer {expired}")),
        ("x-api-key", &reader),
        ("x-api-key", &owner.key),
        ("x-api-key", &platform.key),
        ("x-api-key", &agent.key),
    ];
    for (path, expected) in GOLDEN.into_iter().chain(OF_PROVIDERS) {
        let mut found = Vec::new();
        for (header, value) in credentials {
            let url = format!("{}{}", gateway.server.url, path.replace("{provider}", "ndjson"));
            let request = service_kit::testing::client().post(url);
            found.push(
                send_request(request.header("content-type", "application/json").header(header, value).body("{}")).await.status,
            );
        }
        assert_eq!(found, expected, "{path}");
    }
}

#[tokio::test]
async fn s3_drain_keys_only_work_on_drain_routes() {
    let gateway = Gateway::start().await;
    let seed = gateway.seed();
    for org_type in [OrgType::ContentOwner, OrgType::Platform, OrgType::Agent] {
        let org = seed.org("feeds", org_type).await.id;
        let (_, key) = seed.drain(org, org_type, DrainProvider::Ndjson).await;
        for (path, _) in GOLDEN {
            let request = service_kit::testing::client().post(format!("{}{path}", gateway.server.url));
            let refused =
                send_request(request.header("content-type", "application/json").header("x-api-key", &key).body("{}")).await;
            assert_eq!((refused.status, refused.body["code"].as_str()), (403, Some("missing_scope")), "{path}");
        }
    }
    assert_eq!(gateway.log.record_count(), 0);
}

/// Sends half of a body, revokes the key, and sends the other half after caches have expired. Returns the status.
async fn revoked_halfway(gateway: &TestApp, path: &str) -> String {
    let org = gateway.seed().org("slow", OrgType::Platform).await;
    let body = batch().to_string();
    let (first, second) = body.split_at(body.len() / 2);
    let mut stream = TcpStream::connect(gateway.server.url.strip_prefix("http://").expect("an address over HTTP"))
        .await
        .expect("the gateway is connected");
    stream.write_all((head(path, &org.key, body.len()) + first).as_bytes()).await.expect("the gateway is connected");
    tokio::time::sleep(Duration::from_millis(300)).await;
    gateway.seed().revoke_keys(org.id).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stream.write_all(second.as_bytes()).await.expect("the gateway is connected");
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.expect("the gateway is connected");
    String::from_utf8_lossy(&status[9..]).into_owned()
}

#[tokio::test]
async fn s4_rejects_keys_revoked_during_an_upload() {
    let gateway = Gateway::start().await;
    let paths = ["/events", "/sessions/start", "/sessions/bulk", "/drains/ndjson"];
    let statuses = futures::future::join_all(paths.map(|path| revoked_halfway(&gateway, path))).await;
    assert_eq!(statuses, ["401"; 4]);
    assert_eq!(gateway.log.record_count(), 0);
}

#[tokio::test]
async fn over_rate_keys_get_429_and_recover() {
    let gateway = Gateway::start_with(Limits { key_rate: 1, ..Limits::default() }).await;
    let (busy, calm) = (gateway.seed().org("busy", OrgType::Agent).await, gateway.seed().org("calm", OrgType::Agent).await);
    let (mut accepted, mut refused) = (0, None);
    while refused.is_none() {
        let answer = gateway.report(&busy.key, &batch()).await;
        match answer.status {
            201 => accepted += 1,
            _ => refused = Some(answer),
        }
        assert!(accepted < 1_000, "the rate of one per second was never exceeded");
    }
    let refused = refused.expect("the loop ended");
    assert_eq!((refused.status, refused.body["code"].as_str()), (429, Some("too_many_requests")), "{}", refused.body);
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().expect("whole seconds");
    assert!((1..=2).contains(&wait), "{wait}");
    assert_eq!(gateway.report(&calm.key, &batch()).await.status, 201);
    assert_eq!(gateway.log.record_count(), accepted + 1, "a rejected request leaves no record");
    tokio::time::sleep(Duration::from_secs(wait)).await;
    assert_eq!(gateway.report(&busy.key, &batch()).await.status, 201, "after the time in retry-after");
}

#[test]
fn s3_every_write_route_is_in_the_table() {
    let routes: Vec<&str> =
        include_str!("../../src/routes.rs").split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let table: Vec<&str> = GOLDEN.into_iter().chain(OF_PROVIDERS).map(|(path, _)| path).collect();
    assert_eq!(routes, table, "add the new route to GOLDEN, with the status for each credential");
}
