//! Who asks too often is told when to come back (threat rows X30, G12).

use crate::desk::{Answer, Desk, KEYS, MAGIC_LINK, REQUESTS, SESSION, Shows, VERIFY, answer, sign_in};
use identity_api::sign_in::SignInSettings;
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::settings::WebhookSettings;

async fn open(sign_in: SignInSettings) -> Desk {
    Desk::open_for(Clock::System, WebhookSettings::default(), sign_in).await
}

fn statuses(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

#[tokio::test]
async fn x30_an_address_that_asks_to_sign_in_too_often_waits_whatever_it_claims_to_be() {
    let desk = open(SignInSettings { sign_in_rate: 10, ..sign_in() }).await;
    let mut answers = Vec::new();
    for number in 0..30 {
        let path = [MAGIC_LINK, VERIFY, "/api/v1/identity/auth/oidc/x", "/api/v1/identity/auth/oidc/x/callback"][number % 4];
        let method = if number % 4 < 2 { Method::POST } else { Method::GET };
        let claim = format!("198.51.100.{number}");
        let request = desk.request(method, path, Shows::Nothing).header("x-forwarded-for", claim);
        answers.push(answer(request.header("content-type", "application/json").body("{}")).await);
    }
    let waits = statuses(&answers, 429);
    assert!((18..=20).contains(&waits), "{answers:?}");
    assert!(answers[..10].iter().all(|answer| answer.status != 429), "ten in a minute are fine");
    let refused =
        desk.request(Method::POST, MAGIC_LINK, Shows::Nothing).json(&json!({"email": "a@example.com"})).send().await.unwrap();
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=6).contains(&wait), "{wait}");
    let problem: Value = refused.json().await.unwrap();
    assert_eq!((&problem["status"], &problem["code"]), (&json!(429), &json!("too_many_requests")));
    let (_, key) = desk.org("owner").await;
    assert_eq!(desk.list(Shows::Key(&key)).await.status, 200, "who has a key is not held up by it");
}

#[tokio::test]
async fn x30_behind_a_proxy_that_is_trusted_every_client_has_a_rate_of_its_own() {
    let proxies = service_kit::client_address::ProxySettings { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()] };
    let desk = open(SignInSettings { sign_in_rate: 2, proxies, ..sign_in() }).await;
    let ask = async |client: &str| {
        let request = desk.request(Method::POST, VERIFY, Shows::Nothing).header("x-forwarded-for", client);
        answer(request.json(&json!({"token": "x"}))).await.status
    };
    assert_eq!([ask("198.51.100.1").await, ask("198.51.100.1").await, ask("198.51.100.1").await], [401, 401, 429]);
    assert_eq!(ask("198.51.100.2").await, 401);
    assert_eq!(ask("203.0.113.9, 198.51.100.1").await, 429, "what the client itself wrote in front does not count");
}

#[tokio::test]
async fn x30_each_key_and_each_person_has_a_rate_of_its_own() {
    let desk = open(SignInSettings { identity_rate: 1, ..sign_in() }).await;
    let ((org, busy), (_, other)) = (desk.org("busy").await, desk.org("other").await);
    let (jane, joe) = (desk.session("jane@example.com", &[org]).await, desk.session("joe@example.com", &[org]).await);
    for (one, another) in [(Shows::Key(&busy), Shows::Key(&other)), (Shows::Session(&jane), Shows::Session(&joe))] {
        let mut answers = Vec::new();
        for _ in 0..100 {
            answers.push(desk.list(one).await);
        }
        assert!(statuses(&answers, 429) > 0, "two a second and no more");
        assert_eq!(statuses(&answers, 200) + statuses(&answers, 429), 100);
        assert_eq!(desk.list(another).await.status, 200);
    }
    let mut whoami = Vec::new();
    for _ in 0..20 {
        whoami.push(desk.get(Shows::Session(&jane), SESSION).await);
    }
    assert!(statuses(&whoami, 429) > 0, "every route of a person counts");
    let refused = desk.request(Method::GET, KEYS, Shows::Key(&busy)).send().await.unwrap();
    assert!(refused.status() != 429 || refused.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn g12_a_bulk_call_costs_one_for_each_of_its_requests() {
    let desk = open(SignInSettings { identity_rate: 50, ..sign_in() }).await;
    let (_, partner) = desk.platform("partner").await;
    let bulk = async |count: usize| {
        let items: Vec<Value> = (0..count).map(|n| json!({"domain": format!("nobody{n}.test")})).collect();
        desk.post(Shows::Key(&partner), &format!("{REQUESTS}/bulk"), &json!(items)).await
    };
    assert_eq!(bulk(100).await.status, 200, "a full bucket is enough for the largest call");
    let again = bulk(100).await;
    assert_eq!(again.refusal(), (429, "too_many_requests"), "and then it is empty");
    assert_eq!(desk.count("SELECT count(*) FROM delegation_requests").await, 0);
}
