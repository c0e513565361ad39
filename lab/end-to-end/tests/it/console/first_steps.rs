//! U5 in real Chromium, without the API: a publisher signs up and sends a first event, and an agent's developer requests access, which an
//! operator approves, and finds out why a batch was rejected.

use super::browser::Browser;
use super::sign_up::{demo_with_a_zone, mailed_link};
use crate::demo::{Demo, DemoApp};
use serde_json::{Value, json};
use service_kit::testing::eventually;
use tokio::process::Command;

const DOMAIN: &str = "first-steps.test";

/// Signs in from the home page with the link in the email.
async fn sign_in(browser: &Browser, demo: &DemoApp, email: &str) {
    browser.open(&demo.url("/")).await;
    browser.fill("email", email).await;
    browser.press("Send sign-in link").await;
    browser.shows("Check your email").await;
    let link = eventually("the email arrives", || async { mailed_link(demo, email) }).await;
    browser.open(&link).await;
    browser.shows("To sign in as").await;
    browser.press("Sign in").await;
    browser.shows(email).await;
}

/// Creates a key and returns it.
async fn create_key(browser: &Browser) -> String {
    browser.press("Create key").await;
    browser.fill("name", "first steps").await;
    browser.press("Create key").await;
    browser.shows("shown only once").await;
    browser.text("#created").await
}

/// Returns the exact value of a number on the page.
async fn figure(browser: &Browser, name: &str) -> Value {
    browser.run(&format!("return document.querySelector('[data-figure={name}] data')?.value ?? null")).await
}

/// Reloads the page until it contains this text.
async fn until_it_says(browser: &Browser, text: &str) {
    eventually(&format!("the page contains {text:?}"), || async {
        browser.run("location.reload()").await;
        browser.text("main").await.contains(text).then_some(())
    })
    .await;
}

#[tokio::test]
async fn u5_publisher_reaches_first_event_in_a_browser() {
    let (demo, zone, _dns) = demo_with_a_zone().await;
    let browser = Browser::start().await;
    sign_in(&browser, &demo, "publisher@first-steps.test").await;

    browser.shows("Create organization").await;
    browser.fill("name", "First Steps").await;
    browser.fill("domain", DOMAIN).await;
    browser.press("Create organization").await;
    browser.shows("Three steps to see").await;
    browser.press("Verify domain").await;
    browser.shows("Not verified yet").await;
    let line = browser.text("code[id^=line-]").await;
    zone.lock().unwrap().insert(format!("_content-telemetry.{DOMAIN}"), line);
    browser.press("Verify domain").await;
    browser.shows("Domain verified.").await;

    browser.press("Get started").await;
    browser.shows("You need an API key to report events").await;
    assert!(create_key(&browser).await.starts_with("svc_pub_"));
    let command = browser.text("#trial").await;
    browser.press("Get started").await;
    browser.shows("Waiting for the first event").await;
    browser.run("window.isTheSamePage = true").await;
    let pasted = Command::new("bash").args(["-c", &command]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&pasted.stdout).contains("\"events_created\":1"), "{command}: {pasted:?}");
    browser.shows("Your first event arrived").await;
    assert_eq!(browser.run("return window.isTheSamePage").await, true, "the page was reloaded");
    browser.press("View overview").await;
    browser.shows("Your content was fetched once").await;
    assert_eq!(figure(&browser, "retrieved").await, "1");
    browser.press("Sign out").await;
    browser.shows("Send sign-in link").await;
    let complaints = browser.console_errors().await;
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[tokio::test]
async fn u5_developer_requests_access_and_sees_events() {
    let demo = Demo::start().await;
    let (developer, operator) = (Browser::start().await, Browser::start().await);
    sign_in(&developer, &demo, "developer@first-steps.test").await;
    developer.press("Request an organization").await;
    developer.shows("An operator reviews each request").await;
    developer.fill("org_name", "First Robot").await;
    developer.fill("use_case", "Answers questions, and says which pages it read.").await;
    developer.press("Send request").await;
    developer.shows("Your requests").await;
    assert_eq!(developer.text("td .badge").await, "Pending");

    sign_in(&operator, &demo, "operator@example.net").await;
    operator.shows("First Robot").await;
    operator.shows("says which pages it read").await;
    operator.press("Approve").await;
    operator.shows("No pending requests").await;
    operator.press("All organizations").await;
    operator.shows("First Robot").await;

    developer.press("Agents and platforms").await;
    developer.shows("Approved").await;
    developer.press("Open").await;
    developer.shows("No events reported").await;
    let key = create_key(&developer).await;
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let event = |kind: &str| {
        json!({"session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "agent_id": "first-robot", "events": [
            {"type": kind, "timestamp": now, "content_url": "https://www.example.com/page"}]})
    };
    assert_eq!(demo.report(&key, &event("content_cited")).await.status, 201);
    assert_eq!(demo.report(&key, &event("content_eaten")).await.status, 422);
    developer.press("Overview").await;
    until_it_says(&developer, "first-robot").await;
    assert_eq!(figure(&developer, "events").await, "1");
    developer.press("Rejected reports").await;
    until_it_says(&developer, "422").await;
    for browser in [developer, operator] {
        let complaints = browser.console_errors().await;
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}
