//! Tests of destination checks, authentication and responses by provider.

use super::{BOT, body, delivery, line};
use crate::encodings::compress;
use crate::harness::{Credentials, Gateway, send_request};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ingest_gateway::DrainSettings;
use schemas::identity::{DrainProvider, OrgType, Scope};
use schemas::secrets::PlainApiKey;
use serde_json::json;

#[tokio::test]
async fn cloudflare_test_is_accepted_and_stores_nothing() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let gzip = compress("gzip", b"{\"content\":\"tests\"}\n");
    let trial = gateway.post_request("/drains/cloudflare", &key).header("content-encoding", "gzip");
    let taken = send_request(trial.body(gzip)).await;
    assert_eq!((taken.status, &taken.body["lines"]), (200, &json!(0)), "{}", taken.body);
    let covered: i64 = sqlx::query_scalar("SELECT count(*) FROM drain_hours").fetch_one(&gateway.stores.pool).await.unwrap();
    assert_eq!((gateway.log.record_count(), covered), (0, 0));
}

/// A digest of the service's id would reveal that it sends logs here.
#[tokio::test]
async fn d7_fastly_challenge_does_not_name_services() {
    let gateway = Gateway::start().await;
    for service in [None, Some("abc"), Some("def")] {
        if service.is_some() {
            let org = gateway.seed().org("owner", OrgType::ContentOwner).await.id;
            let made = "INSERT INTO drains (organization_id, name, provider, fastly_service_id) VALUES ($1, 'x', 'fastly', $2)";
            sqlx::query(made).bind(org.0).bind(service).execute(&gateway.stores.pool).await.unwrap();
        }
        let asked = reqwest::get(format!("{}/.well-known/fastly/logging/challenge", gateway.server.url)).await.unwrap();
        assert_eq!((asked.status().as_u16(), asked.text().await.unwrap().as_str()), (200, "*\n"), "{service:?}");
    }
}

#[tokio::test]
async fn every_response_has_the_vercel_verification_header() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    for (key, status) in [(Some(key.as_str()), 200), (None, 401)] {
        let verified = send_request(
            gateway.post_request("/drains/vercel", key.unwrap_or_default()).header("x-vercel-verify", "word-1").body("[]"),
        )
        .await;
        assert_eq!((verified.status, verified.headers["x-vercel-verify"].to_str().unwrap()), (status, "word-1"));
    }
}

#[tokio::test]
async fn firehose_responses_always_have_its_format() {
    let small = DrainSettings { drain_wire_bytes: 2_000, ..DrainSettings::default() };
    let closed = DrainSettings { drains_at_once: 0, ..DrainSettings::default() };
    let (gateway, without_turns) = (Gateway::start_draining(small).await, Gateway::start_draining(closed).await);
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let other = without_turns.seed().org("network", OrgType::Platform).await.key;
    let reader = gateway.seed().org("reader", OrgType::Platform).await;
    let reader = gateway.seed().key(reader.id, OrgType::Platform, &[Scope::TelemetryRead]).await;
    let stranger = PlainApiKey::generate(OrgType::Platform);
    let good = body("firehose", b"");
    let long = delivery("in the body", &[&[b'x'; 3_000]]);
    for (gateway, key, sent, query, status) in [
        (&gateway, key.as_str(), good.clone(), "", 200),
        (&gateway, stranger.reveal(), good.clone(), "", 401),
        (&gateway, reader.as_str(), good.clone(), "", 403),
        (&gateway, key.as_str(), long, "", 413),
        (&gateway, key.as_str(), b"{\"records\":[".to_vec(), "", 400),
        (&gateway, key.as_str(), good.clone(), "?role=king", 400),
        (&without_turns, other.as_str(), good, "", 503),
    ] {
        let request = gateway
            .post_request(&format!("/drains/firehose{query}"), Credentials::Nothing)
            .header("x-amz-firehose-access-key", key);
        let told = send_request(request.header("x-amz-firehose-request-id", "delivery-9").body(sent)).await;
        assert_eq!((told.status, &told.body["requestId"]), (status, &json!("delivery-9")), "{}", told.body);
        assert!(told.body["timestamp"].is_i64() && told.headers["content-type"] == "application/json");
        assert_eq!(told.body["errorMessage"].as_str().is_some_and(|text| !text.is_empty()), status != 200, "{}", told.body);
    }
}

#[tokio::test]
async fn accepts_keys_in_provider_headers() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("any:{key}")));
    let bearer = format!("Bearer {key}");
    for (name, value) in
        [("x-api-key", key.as_str()), ("authorization", &bearer), ("authorization", &basic), ("x-amz-firehose-access-key", &key)]
    {
        let taken = send_request(
            gateway
                .post_request("/drains/cloudflare", Credentials::Nothing)
                .header(name, value)
                .body(line("a.test", "/", BOT, "", "r")),
        )
        .await;
        assert_eq!(taken.status, 200, "{name}: {}", taken.body);
    }
    let two = gateway.post_request("/drains/cloudflare", &key).header("authorization", &bearer);
    assert_eq!(send_request(two.body("")).await.status, 401, "two keys are invalid");
    let in_query = gateway.post_request(&format!("/drains/cloudflare?key={key}"), Credentials::Nothing);
    assert!(matches!(send_request(in_query.body("")).await.status, 400 | 401));
}

/// Neither Akamai nor other providers document their destination tests.
#[tokio::test]
async fn destination_tests_succeed_without_events() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("network", OrgType::Platform).await.key;
    for provider in DrainProvider::NAMES.into_iter().filter(|name| *name != "firehose") {
        for trial in ["", "\n", "{}", "[]", "test", r#"{"access_validation":true}"#, r#"[{"message":"test"}]"#] {
            for (encoding, body) in [("identity", trial.as_bytes().to_vec()), ("gzip", compress("gzip", trial.as_bytes()))] {
                let request = gateway.post_request(&format!("/drains/{provider}"), &key).header("content-encoding", encoding);
                let told = send_request(request.body(body)).await;
                // Vercel also sends lines that aren't about requests. Text in an unknown format is an unreadable line.
                let is_known = provider == "vercel" && trial != "test" || provider != "combined" && !trial.contains("test");
                let status = if trial.trim().is_empty() || is_known { 200 } else { 422 };
                assert_eq!(told.status, status, "{provider}, {trial:?}, {encoding}: {}", told.body);
            }
        }
    }
    assert_eq!(gateway.log.record_count(), 0);
}
