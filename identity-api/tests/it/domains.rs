//! Domains: register, verify by three methods over real sockets, release. Errors don't reveal network details.

use crate::fake_internet::FakeInternet;
use crate::test_app::{DOMAINS, Identity, Requests as _, TestApp, manual_clock};
use identity_api::domains::DomainSettings;
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::settings::WebhookSettings;
use service_kit::testing::{Credentials, TestReceiver, TestResponse, TestStores, send_request};

pub(crate) async fn app_on(internet: &FakeInternet) -> TestApp {
    let (outside, domains) = internet.settings();
    Identity::open_on(TestStores::unprepared().await, manual_clock(), outside, domains).await
}

pub(crate) async fn register(app: &TestApp, key: &str, domain: &str) -> TestResponse {
    app.post(Credentials::Key(key), DOMAINS, &json!({"domain": domain})).await
}

pub(crate) async fn verify(app: &TestApp, key: &str, registered: &TestResponse, methods: &[&str]) -> TestResponse {
    let path = format!("{DOMAINS}/{}/verify", registered.text("id"));
    app.post(Credentials::Key(key), &path, &json!({"methods": methods})).await
}

pub(crate) async fn release(app: &TestApp, key: &str, registered: &TestResponse) -> u16 {
    app.delete(Credentials::Key(key), &format!("{DOMAINS}/{}", registered.text("id"))).await.status
}

pub(crate) async fn own(app: &TestApp, internet: &FakeInternet, key: &str, domain: &str) -> TestResponse {
    let registered = register(app, key, domain).await;
    internet
        .publish_text(&format!("_content-telemetry.{domain}"), &format!("svc-verify={}", registered.text("verification_token")));
    let verified = verify(app, key, &registered, &["dns_txt"]).await;
    assert_eq!((verified.status, &verified.body["verified"]), (200, &json!(true)), "{}", verified.body);
    registered
}

/// Returns each method with its fault.
fn codes(refused: &TestResponse) -> Vec<(&str, &str)> {
    let faults = refused.body["errors"].as_array().unwrap();
    faults.iter().map(|fault| (fault["field"].as_str().unwrap(), fault["code"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn registers_verifies_and_releases_a_domain() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (org, key) = app.org("owner").await;
    let registered = register(&app, &key, " HTTPS://WWW.A.Test.:443/shop?x=1 ").await;
    assert_eq!(registered.status, 201, "{}", registered.body);
    let token = registered.text("verification_token").to_owned();
    assert_eq!(token.len(), 64);
    let mut expected = registered.body.clone();
    expected.as_object_mut().unwrap().retain(|member, _| ["id", "verification_token", "created_at"].contains(&member.as_str()));
    for (member, value) in [
        ("organization_id", json!(org)),
        ("domain", json!("a.test")),
        ("verified", json!(false)),
        ("verification_method", Value::Null),
        ("verified_at", Value::Null),
    ] {
        expected[member] = value;
    }
    assert_eq!(registered.body, expected);
    for same in ["www.a.test", "a.test"] {
        assert_eq!(register(&app, &key, same).await.refusal(), (409, "conflict"), "already registered: {same}");
    }
    assert_eq!(release(&app, &key, &registered).await, 204);
    assert_eq!(release(&app, &key, &registered).await, 204, "repeating it changes nothing");
    assert_eq!(app.get(Credentials::Key(&key), DOMAINS).await.body, json!([]));
    assert_eq!(verify(&app, &key, &registered, &["dns_txt"]).await.refusal(), (404, "not_found"));

    let registered = own(&app, &internet, &key, "a.test").await;
    let verified = app.get(Credentials::Key(&key), DOMAINS).await.body[0].clone();
    assert_eq!((&verified["id"], &verified["verification_method"]), (&registered.body["id"], &json!("dns_txt")));
    assert!(verified["verified_at"].is_string());
    internet.forget();
    assert_eq!(verify(&app, &key, &registered, &["dns_txt"]).await.body, verified, "it stays verified without another check");
    assert_eq!(release(&app, &key, &registered).await, 204);
    assert_eq!(
        app.audited(org).await,
        ["domain.registered", "domain.released", "domain.registered", "domain.verified", "domain.released"]
    );
}

#[tokio::test]
async fn verifies_domains_by_each_of_three_methods() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    for (method, other) in [("dns_txt", "well_known"), ("well_known", "meta_tag"), ("meta_tag", "dns_txt")] {
        let (_, key) = app.org(method).await;
        let registered = register(&app, &key, "a.test").await;
        let token = registered.text("verification_token");
        match method {
            "dns_txt" => {
                internet.publish_text("_content-telemetry.a.test", "v=spf1 -all");
                internet.publish_text("_content-telemetry.a.test", &format!("svc-verify={token}"));
            }
            "well_known" => {
                let manifest = json!({"keys": [], "verification_token": token}).to_string();
                internet.publish_page("a.test/.well-known/content-telemetry.json", 200, &manifest);
            }
            _ => {
                let meta = format!(r#"<meta name="content-telemetry-verification" content="{token}">"#);
                internet.publish_page("a.test/", 200, &format!("<html><head>{meta}</head>{}</html>", "<p>".repeat(100_000)));
            }
        }
        assert_eq!(verify(&app, &key, &registered, &[other]).await.status, 422, "{method} is not {other}");
        let path = format!("{DOMAINS}/{}/verify", registered.text("id"));
        // Without a body, every method is tried.
        let verified = send_request(app.request(Method::POST, &path, Credentials::Key(&key))).await;
        assert_eq!((verified.status, &verified.body["verification_method"]), (200, &json!(method)), "{}", verified.body);
        assert_eq!(release(&app, &key, &registered).await, 204);
        internet.forget();
    }
}

#[tokio::test]
async fn failed_verification_reports_one_fault_per_method() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (_, key) = app.org("owner").await;
    let registered = register(&app, &key, "a.test").await;
    let token = registered.text("verification_token");
    let all = ["dns_txt", "well_known", "meta_tag"];
    // The server doesn't have the page, and the zone is empty.
    let nothing = verify(&app, &key, &registered, &all).await;
    assert_eq!(nothing.refusal(), (422, "invalid_request"));
    assert_eq!(codes(&nothing), [("dns_txt", "no_answer"), ("well_known", "no_answer"), ("meta_tag", "no_answer")]);
    // Everything is published, but for another organization.
    let (_, other) = app.org("other").await;
    let foreign = register(&app, &other, "a.test").await.text("verification_token").to_owned();
    assert_ne!(token, foreign, "each registration has its own token");
    internet.publish_text("_content-telemetry.a.test", &format!("svc-verify={foreign}"));
    internet.publish_text("a.test", &format!("svc-verify={token}"));
    internet.publish_page(
        "a.test/.well-known/content-telemetry.json",
        200,
        &json!({"token": token, "verification_token": foreign}).to_string(),
    );
    internet.publish_page("a.test/", 200, &format!("<body>{token}<meta name=content-telemetry-verification content={token}>"));
    let lacking = verify(&app, &key, &registered, &all).await;
    assert_eq!(codes(&lacking), [("dns_txt", "no_token"), ("well_known", "no_token"), ("meta_tag", "no_token")]);
    let instead = format!("The TXT record at _content-telemetry.a.test has another value; found svc-verify={foreign}; expected");
    assert!(lacking.body["errors"][0]["detail"].as_str().unwrap().starts_with(&instead), "{}", lacking.body);
    // The right document with the wrong status, or too large for a manifest.
    let manifest = json!({"verification_token": token}).to_string();
    for status in [201, 301, 302, 404, 500] {
        internet.publish_page("a.test/.well-known/content-telemetry.json", status, &manifest);
        internet.publish_page("a.test/elsewhere", 200, &manifest);
        assert_eq!(codes(&verify(&app, &key, &registered, &["well_known"]).await), [("well_known", "no_answer")], "{status}");
    }
    let padded = json!({"verification_token": token, "x": "y".repeat(70_000)}).to_string();
    internet.publish_page("a.test/.well-known/content-telemetry.json", 200, &padded);
    assert_eq!(codes(&verify(&app, &key, &registered, &["well_known"]).await), [("well_known", "no_token")]);
    assert_eq!(app.get(Credentials::Key(&key), DOMAINS).await.body[0]["verified"], json!(false));
}

/// Private addresses get the same response as unknown ones (S5).
#[tokio::test]
async fn private_addresses_look_like_unreachable_ones() {
    let (internet, canary) = (FakeInternet::new().await, TestReceiver::canary().await);
    let (outside, domains) = internet.settings();
    // Allow any public host on the canary's port, so that only its private address is rejected.
    let port = canary.address.port();
    let outside = WebhookSettings { webhook_allow: format!("*:{port}").parse().unwrap(), ..outside };
    let domains = DomainSettings { verification_port: port, ..domains };
    let app = Identity::open_on(TestStores::unprepared().await, Clock::System, outside, domains).await;
    let (_, key) = app.org("owner").await;
    let registered = register(&app, &key, "a.test").await;
    let mut answers = Vec::new();
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "2d00::1"] {
        internet.point("a.test", address);
        let refused = verify(&app, &key, &registered, &["well_known", "meta_tag"]).await;
        let text = refused.body.to_string();
        assert!(!text.contains(address) && !text.contains(&port.to_string()), "{text}");
        answers.push(refused);
    }
    assert_eq!(codes(&answers[0]), [("well_known", "no_answer"), ("meta_tag", "no_answer")]);
    assert!(answers.iter().all(|refused| *refused == answers[0]), "{answers:?}");
    assert_eq!(canary.connects(), 0);
}

#[tokio::test]
async fn limits_domains_and_verifications() {
    let internet = FakeInternet::new().await;
    let (outside, domains) = internet.settings();
    let domains = DomainSettings { domains_per_organization: 3, verifications_per_minute: 4, ..domains };
    let app = Identity::open_on(TestStores::unprepared().await, Clock::System, outside, domains).await;
    let ((_, key), (_, other)) = (app.org("owner").await, app.org("other").await);
    let mut registered = Vec::new();
    for number in 0..3 {
        registered.push(register(&app, &key, &format!("host{number}.a.test")).await);
    }
    assert_eq!(register(&app, &key, "host3.a.test").await.refusal(), (409, "conflict"));
    assert_eq!(release(&app, &key, &registered[0]).await, 204);
    assert_eq!(register(&app, &key, "host3.a.test").await.status, 201);

    let mut admitted = 0;
    let refused = loop {
        let answered = verify(&app, &key, &registered[1], &["dns_txt"]).await;
        match answered.status {
            422 if admitted < 100 => admitted += 1,
            _ => break answered,
        }
    };
    assert_eq!(refused.refusal(), (429, "too_many_requests"));
    assert!(admitted >= 4, "{admitted} are admitted at once");
    let theirs = register(&app, &other, "host1.a.test").await;
    assert_eq!(verify(&app, &other, &theirs, &["dns_txt"]).await.status, 422, "others are not affected");
}

#[tokio::test]
async fn ignores_www_in_domains() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (_, key) = app.org("owner").await;
    let registered = register(&app, &key, "www.a.test").await;
    assert_eq!((registered.status, registered.text("domain")), (201, "a.test"));
    let proof = format!("svc-verify={}", registered.text("verification_token"));
    internet.publish_text("_content-telemetry.www.a.test", &proof);
    assert_eq!(verify(&app, &key, &registered, &["dns_txt"]).await.status, 422, "a token at www doesn't verify a.test");
    internet.publish_text("_content-telemetry.a.test", &proof);
    let verified = verify(&app, &key, &registered, &["dns_txt"]).await;
    assert_eq!((verified.status, verified.text("domain")), (200, "a.test"));
    let (_, rival) = app.org("rival").await;
    let theirs = register(&app, &rival, "WWW.a.test.").await;
    assert_eq!(verify(&app, &rival, &theirs, &["dns_txt"]).await.refusal().0, 409, "the host has an owner");
    let twice = register(&app, &key, "www.www.a.test").await;
    assert_eq!(twice.refusal(), (422, "invalid_request"));
}
