//! Attacks on sign-in in real Chromium: on the link's secrecy, on its use, and on the resulting session.

use super::Reader;
use super::browser::Browser;
use super::sign_up::mailed_link;
use crate::demo::{Demo, DemoApp};
use axum::Router;
use axum::http::HeaderMap;
use axum::response::Html;
use serde_json::{Value, json};
use service_kit::testing::{eventually, send_request};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const VICTIM: &str = "victim@console.test";
const ATTACKER: &str = "attacker@console.test";

/// An attacker's server, and the `Referer` headers that browsers sent to it.
struct AttackerServer {
    address: String,
    told: Arc<Mutex<Vec<Option<String>>>>,
}

impl AttackerServer {
    async fn serving(page: String) -> Self {
        let told = Arc::<Mutex<Vec<Option<String>>>>::default();
        let heard = Arc::clone(&told);
        let router = Router::new().fallback(move |headers: HeaderMap| {
            heard.lock().unwrap().push(headers.get("referer").map(|from| from.to_str().unwrap().to_owned()));
            std::future::ready(Html(format!("<!doctype html><title>prize</title><p>A prize</p>{page}")))
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, told }
    }
}

/// Requests a link on the sign-in page and returns it from the email.
async fn request_link(browser: &Browser, demo: &DemoApp) -> String {
    browser.open(&demo.url("/sign-in")).await;
    browser.fill("email", VICTIM).await;
    browser.press("Send sign-in link").await;
    browser.shows("Check your email").await;
    eventually("the email arrives", || async { mailed_link(demo, VICTIM) }).await
}

/// Returns the session cookies of a browser.
async fn sessions(browser: &Browser, demo: &DemoApp) -> Vec<Value> {
    let kept = browser.devtools("Network.getCookies", &json!({"urls": [demo.env("BASE_URL")]})).await;
    let cookies = kept["cookies"].as_array().unwrap().iter();
    cookies.filter(|cookie| cookie["name"] == "telemetry-session").cloned().collect()
}

#[tokio::test]
async fn u4_sign_in_link_is_secret_and_works_only_once() {
    let demo = Demo::start().await;
    let foreign = AttackerServer::serving(String::new()).await;
    let (asking, opening) = (Browser::start().await, Browser::start().await);
    let link = request_link(&asking, &demo).await;
    opening.open(&link).await;
    opening.shows("This link was requested in another browser").await;
    let leave = "const link = document.createElement('a'); link.href = ADDRESS; document.body.append(link); link.click()";
    opening.run(&leave.replace("ADDRESS", &json!(foreign.address).to_string())).await;
    opening.shows("A prize").await;
    assert_eq!(opening.run("return document.referrer").await, "");
    let told = foreign.told.lock().unwrap().clone();
    // The browser requests the icon of the attacker's server from that server's own page.
    assert!(told.contains(&None) && !told.iter().flatten().any(|from| from.starts_with(demo.env("BASE_URL"))), "{told:?}");

    opening.open(&link).await;
    opening.fill("email", VICTIM).await;
    opening.press("Sign in").await;
    opening.shows("Create organization").await;
    let after = opening.run("return [location.href.includes('token'), document.referrer]").await;
    assert_eq!(after, json!([false, ""]), "the address or the referrer contains the token");
    assert_eq!(sessions(&opening, &demo).await.len(), 1);
    assert!(sessions(&asking, &demo).await.is_empty(), "the requesting device was signed in");
    for browser in [&opening, &asking] {
        browser.open(&link).await;
        browser.shows("no longer works").await;
    }
    assert!(sessions(&asking, &demo).await.is_empty());
}

#[tokio::test]
async fn u4_signing_in_replaces_planted_sessions() {
    let demo = Demo::start().await;
    let browser = Browser::start().await;
    browser.sign_in(&demo, "USER_SESSION").await;
    let link = request_link(&browser, &demo).await;
    browser.open(&link).await;
    browser.shows("To sign in as v…@console.test, click the button").await;
    browser.press("Sign in").await;
    browser.shows(VICTIM).await;
    let own = sessions(&browser, &demo).await;
    let [session] = &own[..] else { panic!("not one session: {own:?}") };
    assert_ne!(session["value"], demo.env("USER_SESSION"));
    assert_eq!((&session["httpOnly"], &session["sameSite"]), (&json!(true), &json!("Lax")));
    let planted = Reader::signed_in(&demo, "USER_SESSION").open("/console/organizations").await;
    assert_eq!(planted.address, "/sign-in", "the planted session still works");

    // The attacker's page submits the attacker's own link in the victim's browser.
    let asked = demo.client.post(demo.url("/api/v1/identity/auth/magic-link")).json(&json!({"email": ATTACKER}));
    assert!(send_request(asked).await.status < 300);
    let link = eventually("the attacker's email arrives", || async { mailed_link(&demo, ATTACKER) }).await;
    let (_, token) = link.split_once("token=").unwrap();
    let form = format!(
        "<form method=\"post\" action=\"{}\"><input name=\"token\" value=\"{token}\"></form>",
        demo.url("/sign-in/finish")
    );
    let foreign = AttackerServer::serving(form).await;
    for host in ["localhost", "127.0.0.1"] {
        browser.open(&foreign.address.replace("localhost", host)).await;
        browser.run("document.forms[0].submit()").await;
        browser.shows("Forms must be sent from the console itself").await;
        assert_eq!(sessions(&browser, &demo).await, own, "{host}");
    }
    // The victim opens the same link, and has requested a link for their own account in this browser.
    browser.open(&link).await;
    browser.shows("It signs you in as a…@console.test").await;
    browser.shows(&format!("You’re signed in as {VICTIM}")).await;
    browser.fill("email", VICTIM).await;
    browser.press("Sign in").await;
    browser.shows("This link was sent to another address").await;
    assert_eq!(sessions(&browser, &demo).await, own);
    browser.open(&demo.url("/console/organizations")).await;
    browser.shows(VICTIM).await;
}
