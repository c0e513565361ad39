//! Invalid and hostile responses from OpenID Connect providers.

use crate::forged_provider::{Claims, ForgedProvider, SECRET};
use crate::test_app::{Identity, TestApp, sign_in};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Json, Router};
use chrono::TimeDelta;
use identity_api::domains::DomainSettings;
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::settings::{SecretSetting, WebhookSettings};
use service_kit::testing::{Credentials, DnsRecord, TestDns, TestReceiver, TestResponse, TestServer, TestStores, send_request};
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use url::Url;

/// Modifies one claim of a valid token.
type Spoil = fn(&mut Claims);

/// A browser with a sign-in in progress.
struct PendingSignIn {
    provider: &'static str,
    cookie: String,
    state: String,
    nonce: String,
}

async fn app(providers_at: &[(&str, &ForgedProvider)]) -> TestApp {
    let written = providers_at.iter().map(|(id, provider)| {
        json!({"id": id, "issuer": provider.issuer(), "client_id": "telemetry", "client_secret": SECRET, "scopes": ["openid", "email"]})
    });
    let providers = SecretSetting::from(json!(written.collect::<Vec<_>>()).to_string());
    let hosts: Vec<&str> = providers_at.iter().map(|(_, provider)| provider.host()).collect();
    let settings = SignInSettings { oidc_providers: Some(providers), oidc_allow: hosts.join(",").parse().unwrap(), ..sign_in() };
    Identity::open_for(Clock::manual(Clock::System.now()), settings).await
}

async fn leave(app: &TestApp, provider: &'static str) -> PendingSignIn {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
    let started = client.get(format!("{}/api/v1/identity/auth/oidc/{provider}", app.url(""))).send().await.unwrap();
    assert_eq!(started.status(), 303);
    let cookie = started.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let to: Url = started.headers()["location"].to_str().unwrap().parse().unwrap();
    let said = |name: &str| to.query_pairs().find(|(known, _)| known == name).unwrap().1.into_owned();
    assert_eq!(said("redirect_uri"), format!("http://telemetry.test/api/v1/identity/auth/oidc/{provider}/callback"));
    PendingSignIn { provider, cookie, state: said("state"), nonce: said("nonce") }
}

async fn arrive_with(app: &TestApp, provider: &str, query: &str, cookie: Option<&str>) -> TestResponse {
    let path = format!("/api/v1/identity/auth/oidc/{provider}/callback?{query}");
    let request = app.request(Method::GET, &path, Credentials::Nothing);
    send_request(cookie.into_iter().fold(request, |request, cookie| request.header("cookie", cookie))).await
}

async fn arrive(app: &TestApp, left: &PendingSignIn) -> TestResponse {
    arrive_with(app, left.provider, &format!("code=c&state={}", left.state), Some(&left.cookie)).await
}

#[tokio::test]
async fn rejects_tokens_for_other_clients_or_sign_ins() {
    let forged = ForgedProvider::start().await;
    let app = app(&[("forged", &forged)]).await;
    let now = app.clock.now();
    let spoil: [(&str, Spoil); 9] = [
        ("another nonce", |claims| claims.nonce = Some("x".to_owned())),
        ("no nonce", |claims| claims.nonce = None),
        ("another audience", |claims| claims.audience = "somebody-else".to_owned()),
        ("another issuer", |claims| claims.issuer = "https://accounts.example.com".to_owned()),
        ("expired", |claims| claims.expires_at -= TimeDelta::minutes(5)),
        ("another key", |claims| claims.key = "another-client-secret-that-is-long-enough".to_owned()),
        ("an unverified address", |claims| claims.email_verified = Some(false)),
        ("an address without email_verified", |claims| claims.email_verified = None),
        ("no address", |claims| claims.email = None),
    ];
    for (what, spoil) in spoil {
        let left = leave(&app, "forged").await;
        let mut claims = forged.good("jane", "jane@example.com", &left.nonce, now);
        spoil(&mut claims);
        forged.will_say(&claims, now);
        let refused = arrive(&app, &left).await;
        let expected = if what.contains("address") { (403, "forbidden") } else { (401, "unauthenticated") };
        assert_eq!(refused.refusal(), expected, "{what}");
        assert!(!refused.body.to_string().contains("nonce"), "the reason is only logged: {}", refused.body);
    }
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJqYW5lIn0.";
    for token in [Some(unsigned), Some("x"), Some(""), None] {
        let left = leave(&app, "forged").await;
        forged.will_hand_out(json!({"access_token": "x", "token_type": "Bearer", "id_token": token}));
        assert_eq!(arrive(&app, &left).await.refusal(), (401, "unauthenticated"), "{token:?}");
    }
    assert_eq!(app.count("SELECT count(*) FROM users").await, 0);
    let left = leave(&app, "forged").await;
    forged.will_say(&forged.good("jane", "jane@example.com", &left.nonce, now), now);
    let opened = arrive(&app, &left).await;
    assert_eq!((opened.status, &opened.body["user"]["email"]), (200, &json!("jane@example.com")), "the unmodified token works");
}

/// Returns a sign-in's status with these additional claims in the ID token.
async fn status_with(app: &TestApp, forged: &ForgedProvider, others: &Value) -> u16 {
    let left = leave(app, "forged").await;
    let good = forged.good("jane", "jane@example.com", &left.nonce, app.clock.now());
    forged.will_say(&Claims { others: others.clone(), ..good }, app.clock.now());
    arrive(app, &left).await.status
}

#[tokio::test]
async fn rejects_unreadable_claims_as_invalid_tokens() {
    let forged = ForgedProvider::start().await;
    let app = app(&[("forged", &forged)]).await;
    let late = |seconds: i64| json!(app.clock.now().timestamp() + seconds);
    let mut wrong = Vec::new();
    for (others, expected) in [
        (json!({"email_verified": "1"}), 403),
        (json!({"email_verified": 1}), 403),
        (json!({"email_verified": [true]}), 403),
        (json!({"email_verified": "yes"}), 403),
        (json!({"email": 7}), 403),
        (json!({"exp": null}), 401),
        (json!({"exp": "soon"}), 401),
        (json!({"iat": null}), 401),
        (json!({"aud": 7}), 401),
        (json!({"sub": null}), 401),
        (json!({"sub": ""}), 401),
        (json!({"sub": "jane\0"}), 401),
        (json!({"sub": "x".repeat(256)}), 401),
        (json!({"iat": late(62)}), 401),
        (json!({"nbf": late(62)}), 401),
    ] {
        let status = status_with(&app, &forged, &others).await;
        if status != expected {
            wrong.push(format!("{status}: {others}"));
        }
    }
    assert_eq!((wrong, app.count("SELECT count(*) FROM users").await), (Vec::new(), 0));
    for others in [
        json!({"email_verified": "true"}),
        json!({"email_verified": "True"}),
        json!({"email_verified": "TRUE"}),
        json!({"phone_number_verified": 1, "updated_at": "yesterday", "address": 7}),
        json!({"iat": late(58), "nbf": late(58)}),
    ] {
        assert_eq!(status_with(&app, &forged, &others).await, 200, "{others}");
    }
}

#[tokio::test]
async fn userinfo_can_verify_the_address_of_the_id_token() {
    let forged = ForgedProvider::start().await;
    for (person, expected) in [
        (json!({"sub": "jane", "email": "jane@example.com"}), 403),
        (json!({"sub": "jane", "email": "jane@example.com", "email_verified": false}), 403),
        (json!({"sub": "jane", "email": "joe@example.com", "email_verified": true}), 403),
        (json!({"sub": "joe", "email": "jane@example.com", "email_verified": true}), 401),
        (json!({"email_verified": true}), 401),
        (json!({"sub": "jane", "email": "Jane@Example.com", "email_verified": true}), 200),
        (json!({"sub": "jane", "email_verified": "True"}), 200),
    ] {
        forged.will_describe(person.clone());
        let app = app(&[("forged", &forged)]).await;
        assert_eq!(status_with(&app, &forged, &json!({"email_verified": null})).await, expected, "{person}");
        assert_eq!(status_with(&app, &forged, &json!({"email_verified": false})).await, 403, "{person}");
        assert_ne!(status_with(&app, &forged, &json!({"email": null, "email_verified": false})).await, 200, "{person}");
    }
}

/// The client secret is also an HMAC key, so it must not be accepted from a provider that advertises RSA.
#[tokio::test]
async fn rejects_unexpected_signing_algorithms() {
    let forged = ForgedProvider::start().await;
    forged.claims_to_sign_with(&["RS256"]);
    let app = app(&[("forged", &forged)]).await;
    let left = leave(&app, "forged").await;
    forged.will_say(&forged.good("jane", "jane@example.com", &left.nonce, app.clock.now()), app.clock.now());
    assert_eq!(arrive(&app, &left).await.refusal(), (401, "unauthenticated"));
    assert_eq!(app.count("SELECT count(*) FROM user_sessions").await, 0);
}

#[tokio::test]
async fn rejects_callbacks_without_a_started_sign_in() {
    let (forged, other) = (ForgedProvider::start().await, ForgedProvider::start().await);
    let app = app(&[("forged", &forged), ("other", &other)]).await;
    let (left, elsewhere) = (leave(&app, "forged").await, leave(&app, "other").await);
    let now = app.clock.now();
    forged.will_say(&forged.good("jane", "jane@example.com", &left.nonce, now), now);
    other.will_say(&other.good("jane", "jane@example.com", &left.nonce, now), now);
    let good = format!("code=c&state={}", left.state);
    let wrong_state = format!("code=c&state={}", elsewhere.state);
    let mut flipped = left.cookie.clone();
    let last = if flipped.pop() == Some('A') { 'Q' } else { 'A' };
    flipped.insert(flipped.len() - 4, last);
    let twice = format!("{}; {}", left.cookie, elsewhere.cookie);
    for (what, provider, query, cookie) in [
        ("no cookie", "forged", good.as_str(), None),
        ("another state", "forged", &wrong_state, Some(left.cookie.as_str())),
        ("no state", "forged", "code=c", Some(&left.cookie)),
        ("an empty state", "forged", "code=c&state=", Some(&left.cookie)),
        ("no code", "forged", &format!("state={}", left.state), Some(&left.cookie)),
        ("an error", "forged", &format!("error=access_denied&state={}", left.state), Some(&left.cookie)),
        ("another journey's cookie", "forged", &good, Some(&elsewhere.cookie)),
        ("a cookie that was changed", "forged", &good, Some(&flipped)),
        ("an empty cookie", "forged", &good, Some("telemetry-sign-in=")),
        ("two cookies", "forged", &good, Some(&twice)),
        ("another provider", "other", &good, Some(&left.cookie)),
    ] {
        assert_eq!(arrive_with(&app, provider, query, cookie).await.refusal(), (401, "unauthenticated"), "{what}");
    }
    let twice = format!("{good}&state={}", left.state);
    assert_eq!(arrive_with(&app, "forged", &twice, Some(&left.cookie)).await.refusal(), (400, "invalid_parameter"));
    assert_eq!(arrive_with(&app, "nobody", &good, Some(&left.cookie)).await.refusal(), (404, "not_found"));
    assert_eq!(arrive(&app, &left).await.status, 200, "the same provider is accepted");
    let late = leave(&app, "forged").await;
    app.clock.advance(TimeDelta::minutes(10));
    forged.will_say(&forged.good("jane", "jane@example.com", &late.nonce, app.clock.now()), app.clock.now());
    assert_eq!(arrive(&app, &late).await.refusal(), (401, "unauthenticated"), "a sign-in expires after ten minutes");
}

#[tokio::test]
async fn subjects_are_scoped_to_their_provider() {
    let (forged, other) = (ForgedProvider::start().await, ForgedProvider::start().await);
    let app = app(&[("forged", &forged), ("other", &other)]).await;
    let now = app.clock.now();
    let come = async |id: &'static str, provider: &ForgedProvider, subject: &str, email: &str| {
        let left = leave(&app, id).await;
        provider.will_say(&provider.good(subject, email, &left.nonce, now), now);
        let opened = arrive(&app, &left).await;
        (opened.status, opened.body["user"]["id"].clone(), opened.body["user"]["email"].clone())
    };
    let jane = come("forged", &forged, "1", "jane@example.com").await;
    assert_eq!((jane.0, &jane.2), (200, &json!("jane@example.com")));
    let joe = come("other", &other, "1", "joe@example.com").await;
    assert!(joe.0 == 200 && joe.1 != jane.1, "the same subject at another provider is another person");
    assert_eq!(come("other", &other, "2", "jane@example.com").await.1, jane.1, "a verified address opens its account");
    let moved = come("forged", &forged, "1", "jane@elsewhere.example").await;
    assert_eq!(moved, jane, "a subject keeps its account when its address changes");
    let heir = come("forged", &forged, "2", "jane@example.com").await;
    assert_eq!(heir.0, 403, "a new owner of the address is another person");
    assert_eq!(app.count("SELECT count(*) FROM users").await, 2);
}

#[tokio::test]
async fn unavailable_and_inconsistent_providers_return_503() {
    let forged = ForgedProvider::start().await;
    let wrong = json!([
        {"id": "away", "issuer": "http://127.0.0.1:9", "client_id": "c"},
        {"id": "wrong", "issuer": format!("{}/", forged.issuer()), "client_id": "c"},
    ]);
    let oidc_allow = format!("127.0.0.1:9,{}", forged.host()).parse().unwrap();
    let settings = SignInSettings { oidc_providers: Some(SecretSetting::from(wrong.to_string())), oidc_allow, ..sign_in() };
    let app = Identity::open_for(Clock::System, settings).await;
    for id in ["away", "wrong"] {
        let refused = app.get(Credentials::Nothing, &format!("/api/v1/identity/auth/oidc/{id}")).await;
        assert_eq!(refused.refusal(), (503, "unavailable"), "{id}");
        assert!(!refused.body.to_string().contains("127.0.0.1"), "{}", refused.body);
    }
}

#[tokio::test]
async fn audits_account_linking_once() {
    let forged = ForgedProvider::start().await;
    let app = app(&[("forged", &forged)]).await;
    let now = app.clock.now();
    for _ in 0..2 {
        let left = leave(&app, "forged").await;
        forged.will_say(&forged.good("jane", "jane@example.com", &left.nonce, now), now);
        assert_eq!(arrive(&app, &left).await.status, 200);
    }
    let rows: Vec<(String, Value)> = sqlx::query_as(
        "SELECT u.email, a.detail FROM audit_log a JOIN users u ON u.id = a.actor_id AND u.id = a.object_id \
         WHERE a.action = 'user.identity_linked' AND a.actor_kind = 'user'",
    )
    .fetch_all(&app.stores.pool)
    .await
    .unwrap();
    assert_eq!(rows, [("jane@example.com".to_owned(), json!({"issuer": forged.issuer(), "subject": "jane"}))]);
}

/// Starts a provider whose metadata is the result of `describe` for its URL.
async fn describing(describe: impl Fn(&str) -> Response + Clone + Send + Sync + 'static) -> TestServer {
    let own: Arc<OnceLock<String>> = Arc::default();
    let known = Arc::clone(&own);
    let describe = move || {
        let answer = describe(known.get().unwrap());
        async move { answer }
    };
    let server = TestServer::start(Router::new().route("/.well-known/openid-configuration", get(describe))).await;
    own.set(server.url.clone()).unwrap();
    server
}

/// Returns provider metadata with these endpoints.
fn description(issuer: &str, keys: &str, tokens: &str) -> Response {
    let described = json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"), "token_endpoint": tokens, "jwks_uri": keys,
        "response_types_supported": ["code"], "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
    });
    Json(described).into_response()
}

#[tokio::test]
async fn s5_providers_cannot_reach_internal_addresses() {
    let canary = TestReceiver::canary().await;
    let port = canary.address.port();
    let dns = TestDns::start(|_| vec![DnsRecord::Address(Ipv4Addr::LOCALHOST.into())]).await;
    let inside = [
        format!("http://127.0.0.1:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("https://name-of-the-inside.test:{port}/"),
    ];
    let (to, at) = (inside.clone(), inside.clone());
    let mut providers = Vec::new();
    for (index, url) in to.into_iter().enumerate() {
        let keys = url.clone();
        providers
            .push((format!("keys-{index}"), describing(move |issuer| description(issuer, &keys, "https://id.example/")).await));
        let moved = url.clone();
        providers.push((format!("moved-{index}"), describing(move |_| Redirect::temporary(&moved).into_response()).await));
    }
    let mut written: Vec<Value> =
        providers.iter().map(|(id, server)| json!({"id": id, "issuer": server.url, "client_id": "c"})).collect();
    // Its name looks public, on a port that the operator allows for public servers.
    written.push(json!({"id": "rebound", "issuer": at[3].trim_end_matches('/'), "client_id": "c"}));
    let mut allowed: Vec<&str> = providers.iter().map(|(_, server)| server.url.trim_start_matches("http://")).collect();
    let any = format!("*:{port}");
    allowed.push(&any);
    let settings = SignInSettings {
        oidc_providers: Some(SecretSetting::from(Value::from(written.clone()).to_string())),
        oidc_allow: allowed.join(",").parse().unwrap(),
        ..sign_in()
    };
    let outside = WebhookSettings { dns_server: Some(dns.address), ..WebhookSettings::default() };
    let app =
        Identity::open_as(TestStores::unprepared().await, Clock::System, outside, settings, DomainSettings::default()).await;
    for provider in &written {
        let path = format!("/api/v1/identity/auth/oidc/{}", provider["id"].as_str().unwrap());
        assert_eq!(app.get(Credentials::Nothing, &path).await.refusal(), (503, "unavailable"), "{path}");
    }
    assert_eq!(canary.connects(), 0);
}

/// Browsers continue on a page whose URL doesn't contain data from the sign-in.
#[tokio::test]
async fn callbacks_redirect_browsers_to_the_console() {
    let forged = ForgedProvider::start().await;
    let written = json!([{"id": "forged", "issuer": forged.issuer(), "client_id": "telemetry", "client_secret": SECRET}]);
    let page = Some("http://telemetry.test/sign-in".parse().unwrap());
    let (providers, oidc_allow) = (Some(SecretSetting::from(written.to_string())), forged.host().parse().unwrap());
    let settings = SignInSettings { oidc_providers: providers, oidc_allow, sign_in_url: page, ..sign_in() };
    let app = Identity::open_for(Clock::manual(Clock::System.now()), settings).await;
    let listed = app.get(Credentials::Nothing, "/api/v1/identity/auth/oidc").await;
    assert_eq!(listed.body, json!([{"id": "forged", "issuer": forged.issuer()}]));

    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
    let arrive_as = async |left: &PendingSignIn, state: &str, accept: &str| {
        let url = format!("{}/api/v1/identity/auth/oidc/forged/callback?code=c&state={state}", app.url(""));
        client.get(url).header("cookie", &left.cookie).header("accept", accept).send().await.unwrap()
    };
    const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
    let left = leave(&app, "forged").await;
    forged.will_say(&forged.good("person", "person@example.com", &left.nonce, app.clock.now()), app.clock.now());
    let refused = arrive_as(&left, "another", BROWSER).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["location"]),
        (303, &"http://telemetry.test/sign-in/arrived?refused=1".parse().unwrap())
    );
    assert_eq!(arrive_as(&left, "another", "application/json").await.status(), 401, "programs get the error");
    let signed_in = arrive_as(&left, &left.state, BROWSER).await;
    assert_eq!(
        (signed_in.status().as_u16(), &signed_in.headers()["location"]),
        (303, &"http://telemetry.test/sign-in/arrived".parse().unwrap())
    );
    let cookies: Vec<&str> = signed_in.headers().get_all("set-cookie").iter().map(|set| set.to_str().unwrap()).collect();
    assert!(cookies.iter().any(|set| set.starts_with("telemetry-session=") && !set.contains("Max-Age=0")), "{cookies:?}");
}
