//! Attacks on the console in real Chromium. Text from other organizations never runs as a script, and foreign pages can neither frame the
//! console nor change anything.

use super::Reader;
use super::browser::{Browser, addresses, demo_with_an_event};
use super::click_token::TokenSession;
use super::drains::{drains, feed, pasted_key};
use crate::demo::{DemoApp, caught_up, total_events};
use axum::Router;
use axum::response::Html;
use chrono::TimeDelta;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{Credentials, Seed, eventually};
use tokio::net::TcpListener;

/// Hostile text that reports which of its parts ran.
const HOSTILE: &str = "\"'><script>ran(1)</script><img src=x onerror=ran(2)><svg onload=ran(3)></svg>{{7*7}}";
/// Like `HOSTILE`, but without slashes, which names can't contain.
const NAME: &str = "\"'><img src=x onerror=ran(4)><svg onload=ran(5)>";
/// Like `HOSTILE`, for URLs.
const IN_ADDRESS: &str = "%22%27%3E%3Cscript%3Eran(6)%3C%2Fscript%3E%3Cimg%20src%3Dx%20onerror%3Dran(7)%3E";
/// Runs before any script on a page.
const WATCH: &str = "window.told = []; window.ran = which => told.push('ran ' + which);\
    for (const name of ['alert', 'confirm', 'prompt', 'open']) window[name] = () => told.push(name);\
    addEventListener('securitypolicyviolation', event => told.push(event.violatedDirective + ': ' + event.sample));";
/// Returns which scripts ran, which elements aren't part of the console, and whether the page shows the hostile text.
const FOUND: &str = "const foreign = 'img, iframe, object, embed, base, style, script:not([src]), [onerror], [onload], [onclick], [style],\
        a[href^=\"javascript:\" i], form[action^=\"http\"], svg[onload]';\
    return {told: window.told, made: [...document.querySelectorAll(foreign)].map(one => one.outerHTML.slice(0, 200)),\
        is_shown: document.documentElement.textContent.includes('ran(') || [...document.querySelectorAll('input')].some(one => one.value.includes('ran('))}";

async fn post(demo: &DemoApp, key: &str, path: &str, body: Value) -> Value {
    let answer = demo.post(demo.env(key), path, &body).await;
    assert!(answer.status < 300, "{path}: {}: {}", answer.status, answer.body);
    answer.body
}

/// Plants hostile names and URLs: of organizations, people, keys, drains, endpoints and requests.
async fn plant_names(demo: &DemoApp) {
    let pool = &demo.stores.pool;
    sqlx::query("UPDATE organizations SET name = $1 || name").bind(NAME).execute(pool).await.unwrap();
    let seed = Seed(pool);
    let email = format!("{NAME}@example.net").to_lowercase();
    seed.session(&email, TimeDelta::days(1)).await;
    seed.join(&email, demo.env("OWNER_ORG_ID").parse().unwrap()).await;
    post(demo, "OWNER_KEY", "/api/v1/identity/api-keys", json!({"name": HOSTILE})).await;
    post(demo, "NETWORK_KEY", "/api/v1/identity/delegation-requests", json!({"domain": "example.com"})).await;
    // Operators see the path of an address.
    let hostile = HOSTILE.replace(' ', "/");
    let hook = json!({"url": format!("https://receiver.example.net/{hostile}?{hostile}"), "event_types": ["delegation.created"]});
    post(demo, "OWNER_KEY", "/api/v1/identity/webhooks", hook).await;
    let wish = json!({"org_name": NAME, "admin_email": "user@example.net", "use_case": HOSTILE});
    let user = Credentials::Session(demo.env("USER_SESSION"));
    assert_eq!(demo.post(user, "/api/v1/identity/agent-access-requests", &wish).await.status, 201);
}

/// Plants hostile text in events, sessions and logs.
async fn plant_reports(demo: &DemoApp) {
    let now = Clock::System.now();
    let session = post(demo, "AGENT_KEY", "/sessions/start", json!({"agent_id": HOSTILE})).await["session_id"].clone();
    let data = json!({"user_agent": HOSTILE, "bot_name": HOSTILE, "com.example.note": HOSTILE});
    let event = |kind: &str, role: &str| {
        json!({"type": kind, "timestamp": now.to_rfc3339(), "source_role": role, "data": data,
            "content_url": format!("https://www.example.com/?q={HOSTILE}")})
    };
    let of_agent = ["content_retrieved", "content_cited"].map(|kind| {
        let mut event = event(kind, "agent");
        event["session_id"] = session.clone();
        event
    });
    assert_eq!(demo.report(demo.env("AGENT_KEY"), &json!({"events": of_agent})).await.status, 201);
    let of_edge = json!({"events": [event("content_retrieved", "edge")]});
    assert_eq!(demo.report(demo.env("OWNER_KEY"), &of_edge).await.status, 201);
    let link = TokenSession::create(demo, Some(HOSTILE)).await;
    link.end(demo, json!({"type": "conversion", "value_amount": 1, "currency": "EUR"})).await;
    let click = link.click(now, &format!("https://www.example.com/?click={HOSTILE}"));
    assert_eq!(demo.report(demo.env("NETWORK_KEY"), &json!({"events": [click]})).await.status, 201);
    // These are rejected, and the reason contains the hostile text.
    for (key, fault) in [("AGENT_KEY", json!({"type": HOSTILE})), ("OWNER_KEY", json!({"type": "content_retrieved", HOSTILE: 1}))]
    {
        assert_eq!(demo.report(demo.env(key), &json!({"events": [fault]})).await.status, 422);
    }
    let mut owner = Reader::signed_in(demo, "OWNER_SESSION");
    let page = owner.open(&format!("{}?with=code", drains(demo))).await;
    let page = owner.press(&page, "/drains", &[("name", HOSTILE)]).await;
    let line = json!({"timestamp": now.to_rfc3339(), "host": "www.example.com", "method": "GET", "status": 200, "request_id": HOSTILE,
        "url": format!("/{HOSTILE}"), "user_agent": format!("GPTBot/1.2 {HOSTILE}")});
    assert_eq!(feed(demo, &pasted_key(&page).unwrap(), &format!("{line}\n{HOSTILE}\n")).await, 200);
    caught_up(demo, demo).await;
    assert!(total_events(demo).await >= 5);
}

/// Links with hostile parameters.
fn lures(demo: &DemoApp) -> Vec<String> {
    let own = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let of_organization = [
        "overview?domain=H&split=H",
        "overview?since=H&until=H",
        "overview?seen_by=H",
        "overview?period=H",
        "events?event_type=H&agent_id=H&platform_id=H&after=H",
        "events?event_type=H&agent_id=H&live=H",
        "event/H?at=2026-11-01T00:00:00Z",
        "funnel?by=H&split=H",
        "funnel?sort=H",
        "pages?path=/H",
        "pages?path=H&by=H&sort=H",
        "assistants?split=H&sort=H",
        "keys?sort=H",
        "audit?action=H",
        "refused?period=H",
        "drains?with=H&sort=H",
        "webhooks/H",
        "H",
    ];
    let of_anybody = ["/sign-in?token=H", "/sign-in/invite?token=H", "/sign-in/arrived?refused=H", "/console/H"];
    let all = of_organization.into_iter().map(|screen| format!("{own}/{screen}")).chain(of_anybody.map(str::to_owned));
    all.map(|address| demo.url(&address.replace('H', IN_ADDRESS))).collect()
}

#[tokio::test]
async fn u4_hostile_text_and_pages_have_no_effect() {
    let demo = demo_with_an_event().await;
    plant_names(&demo).await;
    plant_reports(&demo).await;
    let browser = Browser::start().await;
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({"source": WATCH})).await;
    browser.open(&demo.url("/sign-in")).await;
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=ran(0)>')").await;
    eventually("the injected script is detected", || async {
        let found = browser.run(FOUND).await;
        (!found["told"].as_array()?.is_empty() && !found["made"].as_array()?.is_empty()).then_some(())
    })
    .await;
    browser.console_errors().await;

    let mut pages = addresses(&demo).await;
    let lures_of_operators =
        ["organizations?q=H", "organizations?trusted_partner=H", "webhooks?which=H", "webhooks?organization_id=H", "webhooks/H"];
    let lures_of_operators =
        lures_of_operators.map(|screen| demo.url(&format!("/console/operator/{}", screen.replace('H', IN_ADDRESS))));
    pages.push(("OPERATOR_SESSION", lures_of_operators.to_vec()));
    pages.push(("OWNER_SESSION", lures(&demo)));
    let (mut shown, mut count) = (0, 0);
    for (session, addresses) in pages {
        browser.sign_in(&demo, session).await;
        for address in addresses {
            browser.open(&address).await;
            let found = browser.run(FOUND).await;
            assert_eq!((&found["told"], &found["made"]), (&json!([]), &json!([])), "{address}");
            let complaints = browser.console_errors().await;
            // The browser also logs the status of missing pages.
            let complaints: Vec<_> = complaints
                .iter()
                .filter(|said| !said["message"].to_string().contains("the server responded with a status of"))
                .collect();
            assert!(complaints.is_empty(), "{address}: {complaints:?}");
            shown += usize::from(found["is_shown"] == true);
            count += 1;
        }
    }
    assert!(count > 45 && shown >= 35, "the text is shown on {shown} of {count} pages");
    be_on_a_foreign_page(&demo, &browser).await;
}

/// Serves an attacker's page, reachable from another site and from another port on the console's site.
async fn foreign_page(demo: &DemoApp) -> (u16, tokio::task::JoinHandle<()>) {
    let own = format!("{}/console/o/{}", demo.env("BASE_URL"), demo.env("OWNER_ORG_ID"));
    let page = format!(
        "<!doctype html><title>prize</title><iframe src=\"{own}/overview\"></iframe>\
         <form method=\"post\" action=\"{own}/keys\"><input name=\"name\" value=\"forged\"><input name=\"scope\" value=\"telemetry:read\">\
         <input name=\"once\" value=\"67e55044-10b1-426f-9247-bb680e5fe0c8\"></form>"
    );
    let router = Router::new().fallback(move || std::future::ready(Html(page.clone())));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

/// Checks that an attacker's page can neither frame the console nor submit its forms.
async fn be_on_a_foreign_page(demo: &DemoApp, browser: &Browser) {
    let (port, serving) = foreign_page(demo).await;
    let names = || async {
        let listed = demo.get(demo.env("OWNER_KEY"), "/api/v1/identity/api-keys").await.body;
        listed.as_array().unwrap().iter().map(|key| key["name"].clone()).collect::<Vec<_>>()
    };
    let before = names().await;
    // The browser sends the session cookie from another port on the same site, but not from another site.
    for (host, site) in [("localhost", "cross-site"), ("127.0.0.1", "same-site")] {
        browser.sign_in(demo, "OWNER_SESSION").await;
        let foreign = format!("http://{host}:{port}/");
        browser.console_errors().await;
        browser.open(&foreign).await;
        let complaints = browser.console_errors().await;
        let is_refused = |said: &Value| said["message"].as_str().is_some_and(|said| said.contains("frame-ancestors"));
        assert!(complaints.iter().any(is_refused), "{site}: {complaints:?}");
        browser.command("/frame", &json!({"id": 0})).await;
        let framed = browser.run("return document.documentElement.outerHTML").await;
        assert!(!framed.as_str().unwrap().contains("Example Publisher"), "{site}: {framed}");
        browser.command("/frame", &json!({"id": null})).await;

        let api = json!(demo.url(&format!("/api/v1/identity/api-keys?organization_id={}", demo.env("OWNER_ORG_ID"))));
        let send = format!(
            "const [done] = arguments; fetch({api}, {{method: 'POST', mode: 'no-cors', credentials: 'include', \
             body: JSON.stringify({{name: 'forged'}})}}).then(() => done('sent'), error => done(String(error)))"
        );
        assert_eq!(browser.run_until_done_with(&send, &json!([])).await, "sent", "{site}");
        browser.run("document.forms[0].submit()").await;
        browser.shows("Forms must be sent from the console itself").await;
        assert_eq!(names().await, before, "{site}");
    }
    // The same form creates the key when it is submitted from the console's own page.
    browser.sign_in(demo, "OWNER_SESSION").await;
    browser.open(&demo.url(&format!("/console/o/{}/keys", demo.env("OWNER_ORG_ID")))).await;
    browser.fill("name", "meant so").await;
    browser.press("Create key").await;
    browser.shows("shown only once").await;
    assert_eq!(names().await.len(), before.len() + 1);
    serving.abort();
}
