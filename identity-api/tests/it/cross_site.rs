//! Other sites' pages can't use a visitor's cookie (threat rows X26, X27).

use crate::mailbox::Mailbox as _;
use crate::test_app::{Credentials, Identity, KEYS, MAGIC_LINK, Requests as _, SESSION, VERIFY, send_request, sign_in};
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use serde_json::json;
use service_kit::clock::Clock;

const OWN: &str = "http://telemetry.test";

/// A browser's request headers, and whether a change by cookie is accepted.
const ORIGINS: [(&[(&str, &str)], bool); 14] = [
    (&[("origin", OWN)], true),
    (&[("origin", "https://console.example.com")], true),
    (&[("sec-fetch-site", "same-origin")], true),
    (&[("origin", OWN), ("sec-fetch-site", "cross-site")], true),
    (&[], false),
    (&[("origin", "http://evil.test")], false),
    (&[("origin", "null")], false),
    (&[("origin", "")], false),
    (&[("origin", "http://telemetry.test.evil.test")], false),
    (&[("origin", "https://telemetry.test")], false),
    (&[("origin", "http://telemetry.test:81")], false),
    (&[("origin", OWN), ("origin", "http://evil.test")], false),
    (&[("origin", "http://evil.test"), ("sec-fetch-site", "same-origin")], false),
    (&[("sec-fetch-site", "same-site")], false),
];

#[tokio::test]
async fn x26_cookie_requests_must_come_from_our_own_pages() {
    let settings = SignInSettings { allowed_origins: vec!["https://console.example.com/app".parse().unwrap()], ..sign_in() };
    let app = Identity::open_for(Clock::System, settings).await;
    let (org, key) = app.org("owner").await;
    let session = app.session("jane@example.com", &[org]).await;
    let generate = |headers: &[(&str, &str)], shows: Credentials<'_>| {
        let request = app.request(Method::POST, KEYS, shows).header("content-type", "application/json").body("{}");
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let mut created = 2;
    for (headers, is_own) in ORIGINS {
        let by_cookie = generate(headers, Credentials::Nothing).header("cookie", format!("telemetry-session={session}"));
        let answered = send_request(by_cookie).await;
        let expected = if is_own { (201, "") } else { (403, "forbidden") };
        assert_eq!(answered.refusal(), expected, "{headers:?}");
        created += usize::from(is_own);
        let reading = headers
            .iter()
            .fold(app.request(Method::GET, KEYS, Credentials::Nothing), |request, (name, value)| request.header(*name, *value));
        let listed = send_request(reading.header("cookie", format!("telemetry-session={session}"))).await;
        assert_eq!(
            (listed.status, listed.body.as_array().unwrap().len()),
            (200, created),
            "{headers:?}: reading changes nothing"
        );
    }
    for shows in [Credentials::Key(&key), Credentials::Session(&session)] {
        let foreign = generate(&[("origin", "http://evil.test"), ("sec-fetch-site", "cross-site")], shows);
        assert_eq!(send_request(foreign).await.status, 201, "a key or bearer session needs no cookie");
    }
    let as_form = app
        .request(Method::POST, KEYS, Credentials::Nothing)
        .header("cookie", format!("telemetry-session={session}"))
        .header("origin", OWN);
    assert_eq!(
        send_request(as_form.header("content-type", "text/plain").body("{}")).await.status,
        415,
        "a form cannot send JSON"
    );
    let signing_out =
        app.request(Method::DELETE, SESSION, Credentials::Nothing).header("cookie", format!("telemetry-session={session}"));
    assert_eq!(send_request(signing_out.header("origin", "http://evil.test")).await.status, 403, "other sites can't sign out");
}

/// Otherwise, a page could sign its visitors in to another account and see what they enter there.
#[tokio::test]
async fn other_sites_cannot_sign_their_visitors_in() {
    let app = Identity::open().await;
    app.ask_to_sign_in("evil@example.com").await;
    let token = app.token_mailed("evil@example.com", 1).await;
    for (path, body) in [(VERIFY, json!({"token": token})), (MAGIC_LINK, json!({"email": "jane@example.com"}))] {
        for (name, value) in [("origin", "http://evil.test"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
            let refused =
                send_request(app.request(Method::POST, path, Credentials::Nothing).header(name, value).json(&body)).await;
            assert_eq!(refused.refusal(), (403, "forbidden"), "{path} {name}: {value}");
        }
    }
    let opened = app.request(Method::POST, VERIFY, Credentials::Nothing).header("origin", OWN).json(&json!({"token": token}));
    assert_eq!(send_request(opened).await.status, 200, "the token is still valid");
}

#[tokio::test]
async fn x27_responses_are_private_and_not_cached() {
    let app = Identity::open().await;
    let session = app.session("jane@example.com", &[]).await;
    for method in [Method::GET, Method::OPTIONS] {
        let request = app.request(method, SESSION, Credentials::Session(&session)).header("origin", "http://evil.test");
        let answered = request.header("access-control-request-method", "GET").send().await.unwrap();
        assert!(answered.headers().keys().all(|name| !name.as_str().starts_with("access-control-")), "{:?}", answered.headers());
        assert_eq!(answered.headers()["cache-control"], "no-store");
    }
}

#[tokio::test]
async fn https_accepts_only_the_host_cookie() {
    let settings = SignInSettings { public_url: Some("https://telemetry.test".parse().unwrap()), ..sign_in() };
    let app = Identity::open_for(Clock::System, settings).await;
    app.ask_to_sign_in("jane@example.com").await;
    let token = app.token_mailed("jane@example.com", 1).await;
    let opened = app.request(Method::POST, VERIFY, Credentials::Nothing).json(&json!({"token": token})).send().await.unwrap();
    let cookie = opened.headers()["set-cookie"].to_str().unwrap().to_owned();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert!(pair.starts_with("__Host-telemetry-session="), "{cookie}");
    assert_eq!(attributes, "Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure");
    let by = async |pair: &str| {
        send_request(app.request(Method::GET, SESSION, Credentials::Nothing).header("cookie", pair)).await.status
    };
    assert_eq!(by(pair).await, 200);
    assert_eq!(by(pair.strip_prefix("__Host-").unwrap()).await, 401);
    assert_eq!(by(&format!("telemetry-session=planted; {pair}")).await, 200, "cookies with other names are ignored");
}
