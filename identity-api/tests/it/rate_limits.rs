//! Rate limits (threat rows X30, G12).

use crate::people::PROVISIONED;
use crate::people::People as _;
use crate::test_app::{
    Credentials, Identity, KEYS, MAGIC_LINK, REQUESTS, Requests as _, SESSION, TestApp, TestResponse, UNKNOWN_ID, VERIFY,
    send_request, sign_in,
};
use futures::future::join_all;
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use schemas::identity::{OrgType, Scope};
use schemas::secrets::{PlainApiKey, PlainUserSession};
use serde_json::{Value, json};
use service_kit::client_address::ClientSettings;
use service_kit::clock::Clock;
use std::time::Instant;

async fn open(sign_in: SignInSettings) -> TestApp {
    Identity::open_for(Clock::System, sign_in).await
}

fn statuses(answers: &[TestResponse], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

#[tokio::test]
async fn x30_limits_sign_in_requests_per_address() {
    let app = open(SignInSettings { sign_in_rate: 10, ..sign_in() }).await;
    let mut answers = Vec::new();
    for number in 0..30 {
        let path = [MAGIC_LINK, VERIFY, "/api/v1/identity/auth/oidc/x", "/api/v1/identity/auth/oidc/x/callback"][number % 4];
        let method = if number % 4 < 2 { Method::POST } else { Method::GET };
        let claim = format!("198.51.100.{number}");
        let request = app.request(method, path, Credentials::Nothing).header("x-forwarded-for", claim);
        answers.push(send_request(request.header("content-type", "application/json").body("{}")).await);
    }
    let waits = statuses(&answers, 429);
    assert!((18..=20).contains(&waits), "{answers:?}");
    assert!(answers[..10].iter().all(|answer| answer.status != 429), "ten per minute are allowed");
    let refused = app
        .request(Method::POST, MAGIC_LINK, Credentials::Nothing)
        .json(&json!({"email": "a@example.com"}))
        .send()
        .await
        .unwrap();
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=6).contains(&wait), "{wait}");
    let problem: Value = refused.json().await.unwrap();
    assert_eq!((&problem["status"], &problem["code"]), (&json!(429), &json!("too_many_requests")));
    let (_, key) = app.org("owner").await;
    assert_eq!(app.list(Credentials::Key(&key)).await.status, 200, "keys have their own rate");
    let listed = app.request(Method::GET, "/api/v1/identity/auth/oidc", Credentials::Nothing).send().await.unwrap();
    assert_eq!(listed.status(), 200, "the list of providers has no rate");
}

#[tokio::test]
async fn clients_behind_trusted_proxies_have_separate_rates() {
    let clients = ClientSettings { trusted_proxies: "127.0.0.0/8".parse().unwrap(), ..ClientSettings::default() };
    let app = open(SignInSettings { sign_in_rate: 2, clients, ..sign_in() }).await;
    let ask = async |client: &str| {
        let request = app.request(Method::POST, VERIFY, Credentials::Nothing).header("x-forwarded-for", client);
        send_request(request.json(&json!({"token": "x"}))).await.status
    };
    assert_eq!([ask("198.51.100.1").await, ask("198.51.100.1").await, ask("198.51.100.1").await], [401, 401, 429]);
    assert_eq!(ask("198.51.100.2").await, 401);
    assert_eq!(ask("203.0.113.9, 198.51.100.1").await, 429, "addresses added by the client are ignored");
}

#[tokio::test]
async fn keys_and_people_have_separate_rates() {
    let app = open(SignInSettings { identity_rate: 1, ..sign_in() }).await;
    let ((org, busy), (other_org, other)) = (app.org("busy").await, app.org("other").await);
    // Organizations have a rate too, which the busy keys use up.
    let (jane, joe) = (app.session("jane@example.com", &[org]).await, app.session("joe@example.com", &[other_org]).await);
    for (one, another) in
        [(Credentials::Key(&busy), Credentials::Key(&other)), (Credentials::Session(&jane), Credentials::Session(&joe))]
    {
        let mut answers = Vec::new();
        for _ in 0..100 {
            answers.push(app.list(one).await);
        }
        assert!(statuses(&answers, 429) > 0, "at most two per second");
        assert_eq!(statuses(&answers, 200) + statuses(&answers, 429), 100);
        assert_eq!(app.list(another).await.status, 200);
    }
    let mut whoami = Vec::new();
    for _ in 0..20 {
        whoami.push(app.get(Credentials::Session(&jane), SESSION).await);
    }
    assert!(statuses(&whoami, 429) > 0, "every route of a person counts");
    let refused = app.request(Method::GET, KEYS, Credentials::Key(&busy)).send().await.unwrap();
    assert!(refused.status() != 429 || refused.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn keys_without_the_scope_do_not_use_others_rates() {
    let app = open(SignInSettings { identity_rate: 2, ..sign_in() }).await;
    for (path, method, good) in [(KEYS, Method::GET, 200), (PROVISIONED, Method::POST, 422)] {
        let (org, all) = app.platform("partner").await;
        app.trust(org, true).await;
        let mut refused = Vec::new();
        for _ in 0..60 {
            let weak = app.seed().key(org, OrgType::Platform, &[Scope::TelemetryWrite]).await;
            refused.push(app.send(method.clone(), Credentials::Key(&weak), path, "{}").await.status);
        }
        assert_eq!(refused, [403; 60], "{path}: sixty requests, where an organization has eight at once");
        assert_eq!(app.send(method.clone(), Credentials::Key(&all), path, "{}").await.status, good, "{path}");
        let weak = app.seed().key(org, OrgType::Platform, &[Scope::TelemetryWrite]).await;
        let mut hammered = Vec::new();
        for _ in 0..60 {
            hammered.push(app.send(method.clone(), Credentials::Key(&weak), path, "{}").await.status);
        }
        assert!(hammered.contains(&429), "{path}: each key still has its own rate: {hammered:?}");
    }
}

#[tokio::test]
async fn g12_bulk_calls_cost_one_token_per_item() {
    let app = open(SignInSettings { identity_rate: 50, ..sign_in() }).await;
    let (_, partner) = app.platform("partner").await;
    let items: Vec<Value> = (0..100).map(|n| json!({"domain": format!("nobody{n}.test")})).collect();
    let (path, items) = (format!("{REQUESTS}/bulk"), json!(items));
    let begun = Instant::now();
    let first = app.post(Credentials::Key(&partner), &path, &items).await;
    assert_eq!(first.status, 200, "a full bucket covers the largest call");
    let mut answers = join_all((0..19).map(|_| app.post(Credentials::Key(&partner), &path, &items))).await;
    answers.push(first);
    let allowed = 100.0 + 50.0 * begun.elapsed().as_secs_f64();
    let taken = statuses(&answers, 200);
    assert!(taken as f64 * 100.0 <= allowed, "{taken} of 20 calls were accepted, {allowed} requests are allowed");
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(answer.refusal(), (429, "too_many_requests"));
    }
    assert_eq!(app.count("SELECT count(*) FROM delegation_requests").await, 0);
}

#[tokio::test]
async fn a15_partner_routes_are_limited_per_key_and_partner() {
    let app = open(SignInSettings { identity_rate: 1, ..sign_in() }).await;
    let (org, busy) = app.platform("partner").await;
    let (other, calm) = app.platform("other").await;
    for partner in [org, other] {
        app.trust(partner, true).await;
    }
    let routes = [
        PROVISIONED.to_owned(),
        format!("{PROVISIONED}/{UNKNOWN_ID}/invites"),
        format!("{PROVISIONED}/{UNKNOWN_ID}/domains/{UNKNOWN_ID}/attest"),
    ];
    let mut answers = Vec::new();
    for number in 0..60 {
        answers.push(app.post(Credentials::Key(&busy), &routes[number % 3], &json!({})).await);
    }
    assert!(statuses(&answers, 429) > 0, "at most one per second: {answers:?}");
    assert!(answers.iter().all(|answer| matches!(answer.status, 404 | 422 | 429)), "{answers:?}");
    // Another key of the same partner is limited too; another partner isn't.
    let mut by_second = Vec::new();
    for _ in 0..30 {
        let second = app.seed().key(org, OrgType::Platform, &Scope::ALL).await;
        by_second.push(app.post(Credentials::Key(&second), PROVISIONED, &json!({})).await);
    }
    assert!(statuses(&by_second, 429) > 0, "{by_second:?}");
    assert_eq!(app.post(Credentials::Key(&calm), PROVISIONED, &json!({})).await.status, 422);
    let mut told = None;
    for _ in 0..30 {
        let refused = app.request(Method::POST, PROVISIONED, Credentials::Key(&busy)).json(&json!({})).send().await.unwrap();
        if refused.status() == 429 {
            told = refused.headers().get("retry-after").map(|wait| wait.to_str().unwrap().parse::<u64>().unwrap());
            break;
        }
    }
    assert!(told.is_some_and(|wait| wait >= 1), "{told:?}");
}

/// Requests that exceed the key's rate don't count against the partner's.
#[tokio::test]
async fn partner_keys_share_one_rate_across_routes() {
    let app = open(SignInSettings { identity_rate: 1, ..sign_in() }).await;
    let (org, busy) = app.platform("partner").await;
    let second = app.seed().key(org, OrgType::Platform, &Scope::ALL).await;
    app.trust(org, true).await;
    let mut is_held_up = false;
    for _ in 0..60 {
        while app.list(Credentials::Key(&busy)).await.status != 429 {}
        // A token may have refilled in the meantime.
        is_held_up = app.post(Credentials::Key(&busy), PROVISIONED, &json!({})).await.status == 429;
        if is_held_up {
            break;
        }
    }
    assert!(is_held_up, "a key has one rate for all routes");
    assert_eq!(app.post(Credentials::Key(&second), PROVISIONED, &json!({})).await.status, 422, "another key is not limited");
}

/// Unknown credentials use up their address's rate. Known ones aren't affected.
#[tokio::test]
async fn a11_limits_unknown_credentials_per_address() {
    let clients = ClientSettings { refused_rate: 6, ..ClientSettings::default() };
    let app = open(SignInSettings { clients, ..sign_in() }).await;
    let (org, key) = app.org("owner").await;
    let jane = app.session("jane@example.com", &[org]).await;
    assert_eq!(app.list(Credentials::Key(&key)).await.status, 200);
    assert_eq!(app.list(Credentials::Session(&jane)).await.status, 200);
    let unknown: Vec<PlainUserSession> = (0..20).map(|_| PlainUserSession::generate()).collect();
    let mut answers = Vec::new();
    for session in &unknown {
        answers.push(app.list(Credentials::Session(session.reveal())).await.status);
    }
    assert_eq!((answers[0], answers[19]), (401, 429), "{answers:?}");
    let stranger = PlainApiKey::generate(OrgType::Platform);
    assert_eq!(app.list(Credentials::Key(stranger.reveal())).await.status, 429, "keys and sessions count together");
    assert_eq!(app.list(Credentials::Key(&key)).await.status, 200);
    assert_eq!(app.list(Credentials::Session(&jane)).await.status, 200);
    assert_eq!(app.list(Credentials::Nothing).await.status, 401, "requests without credentials don't count");
}
