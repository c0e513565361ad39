//! Live pages: new data appears without a reload, until the session ends.

use super::browser::Browser;
use super::drains::{feed, new_drain};
use crate::demo::{Demo, DemoApp};
use chrono::TimeDelta;
use serde_json::json;
use service_kit::testing::{eventually, send_request};

#[tokio::test]
async fn u4_u5_open_pages_follow_events_and_sessions() {
    let demo = Demo::start().await;
    let browser = Browser::start_with(&["--host-resolver-rules=MAP console.test 127.0.0.1"]).await;
    an_ended_session_leads_to_the_sign_in_page(&demo, &browser).await;
    first_event_arrives(&demo, &browser).await;
    first_lines_arrive(&demo, &browser).await;
    new_events_arrive(&demo, &browser).await;
    buttons_copy_where_they_are_shown(&demo, &browser).await;
}

/// Checks that a live page redirects to the sign-in page after its session has ended.
async fn an_ended_session_leads_to_the_sign_in_page(demo: &DemoApp, browser: &Browser) {
    let own = |screen: &str| demo.url(&format!("/console/o/{}/{screen}", demo.env("OWNER_ORG_ID")));
    let seed = service_kit::testing::Seed(&demo.stores.pool);
    for address in [new_drain(demo).await.0, own("events?live=1"), own("start")] {
        let session = seed.session("owner@example.com", TimeDelta::days(1)).await;
        browser.open(&demo.url("/sign-in")).await;
        let cookie = json!({"cookie": {"name": "telemetry-session", "value": session, "httpOnly": true, "sameSite": "Lax"}});
        browser.command("/cookie", &cookie).await;
        browser.open(&address).await;
        let here = "return location.href";
        assert_eq!(browser.run(here).await, address);
        let ended = demo.client.delete(demo.url("/api/v1/identity/auth/session")).bearer_auth(&session);
        assert_eq!(send_request(ended).await.status, 204);
        eventually(&format!("{address} leads to the sign-in page"), || async {
            (browser.run(here).await == demo.url("/sign-in")).then_some(())
        })
        .await;
        assert!(browser.text("main").await.contains("Send sign-in link"), "{address}");
        assert!(browser.console_errors().await.is_empty(), "{address}");
    }
}

/// Checks that the first event appears on the open page.
async fn first_event_arrives(demo: &DemoApp, browser: &Browser) {
    browser.sign_in(demo, "OWNER_SESSION").await;
    browser.open(&demo.url(&format!("/console/o/{}/start", demo.env("OWNER_ORG_ID")))).await;
    browser.run("window.isTheSamePage = true").await;
    let text = "return document.getElementById('arrival').textContent";
    assert!(browser.run(text).await.as_str().unwrap().contains("Waiting"));
    let sent = demo.report(demo.env("AGENT_KEY"), &crate::demo::retrieval("agent", "3f0c2a36-5a61-4f6b-8f4e-52f3a4f0d009")).await;
    assert_eq!(sent.status, 201);
    eventually("the event is on the page", || async {
        browser.run(text).await.as_str()?.contains("Your first event arrived").then_some(())
    })
    .await;
    assert_eq!(browser.run("return window.isTheSamePage").await, true);
    let time = browser.run("return document.querySelector('#arrival time').hasAttribute('data-local')").await;
    assert_eq!(time, true, "the reader's time zone is missing on hover");
    assert!(browser.console_errors().await.is_empty());
}

/// Checks that the first log lines appear on the open page.
async fn first_lines_arrive(demo: &DemoApp, browser: &Browser) {
    let (address, key) = new_drain(demo).await;
    browser.sign_in(demo, "OWNER_SESSION").await;
    browser.open(&address).await;
    browser.run("window.isTheSamePage = true").await;
    let text = "return document.getElementById('lines').textContent";
    assert!(browser.run(text).await.as_str().unwrap().contains("Waiting for the first line"));
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let line = |agent: &str| {
        format!(
            "{{\"time\":\"{now}\",\"host\":\"www.example.com\",\"url\":\"/{agent}\",\"method\":\"GET\",\"user_agent\":\"{agent}\",\"status\":200}}\n"
        )
    };
    assert_eq!(feed(demo, &key, &["GPTBot/1.2", "Mozilla/5.0", "Mozilla/4.0"].map(line).concat()).await, 200);
    eventually("the lines are on the page", || async {
        browser.run(text).await.as_str()?.contains("3 lines: 1 AI request, 2 human requests").then_some(())
    })
    .await;
    assert_eq!(browser.run("return window.isTheSamePage").await, true);
    assert!(browser.console_errors().await.is_empty());
}

/// Checks that events appear on the live page without replacing rows, and that their text is escaped.
async fn new_events_arrive(demo: &DemoApp, browser: &Browser) {
    let report = async |page: &str| {
        let now = service_kit::clock::Clock::System.now().to_rfc3339();
        let event = json!({"type": "content_retrieved", "timestamp": now, "source_role": "edge",
            "content_url": format!("https://www.example.com/{page}")});
        assert_eq!(demo.report(demo.env("OWNER_KEY"), &json!({"events": [event]})).await.status, 201);
    };
    let shows = async |page: &str| {
        let text = browser.run("return document.getElementById('tail').textContent").await;
        text.as_str().is_some_and(|text| text.contains(page))
    };
    browser.sign_in(demo, "OWNER_SESSION").await;
    browser.open(&demo.url(&format!("/console/o/{}/events?live=1", demo.env("OWNER_ORG_ID")))).await;
    browser.run("window.isTheSamePage = true").await;
    report("<img src=x onerror=alert(1)>").await;
    eventually("the event is on the page", || async { shows("onerror=alert(1)").await.then_some(()) }).await;
    assert_eq!(browser.run("return document.querySelectorAll('#tail img').length").await, 0);
    assert_eq!(browser.run("return document.querySelectorAll('#tail tr.new').length").await, 1);

    // Focus, selection and an open row don't change.
    let read = "const row = document.querySelector('#tail tbody tr'); row.querySelector('details').open = true; \
        row.querySelector('summary').focus(); getSelection().selectAllChildren(row.querySelector('dl')); window.row = row;";
    browser.run(read).await;
    report("second").await;
    eventually("the second event is on the page", || async { shows("/second").await.then_some(()) }).await;
    let kept = "return [document.querySelectorAll('#tail tbody tr')[1] === window.row, window.row.contains(document.activeElement), \
        window.row.querySelector('details').open, window.row.contains(getSelection().anchorNode)]";
    assert_eq!(browser.run(kept).await, json!([true, true, true, true]));

    browser.press("Pause").await;
    report("third").await;
    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    assert!(!shows("/third").await, "a paused page adds events");
    browser.press("Continue").await;
    eventually("the third event is on the page", || async { shows("/third").await.then_some(()) }).await;
    assert_eq!(browser.run("return window.isTheSamePage").await, true);
    assert!(browser.console_errors().await.is_empty());
}

/// Checks that copy buttons appear only on secure origins (localhost or TLS) with scripts enabled.
async fn buttons_copy_where_they_are_shown(demo: &DemoApp, browser: &Browser) {
    const OFFERED: &str = "return [...document.querySelectorAll('button[data-copy]')].map(one => one.checkVisibility())";
    let port = demo.env("BASE_URL").rsplit(':').next().unwrap().to_owned();
    let path = format!("/console/o/{}/start", demo.env("OWNER_ORG_ID"));
    for (base, is_offered) in [(demo.env("BASE_URL").to_owned(), true), (format!("http://console.test:{port}"), false)] {
        browser.open(&format!("{base}/sign-in")).await;
        let cookie = json!({"cookie": {"name": "telemetry-session", "value": demo.env("OWNER_SESSION"), "httpOnly": true}});
        browser.command("/cookie", &cookie).await;
        browser.open(&format!("{base}{path}")).await;
        assert_eq!(browser.run("return isSecureContext").await, is_offered, "{base}");
        assert_eq!(browser.run(OFFERED).await, json!([is_offered]), "{base}");
    }
    let granted = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": demo.env("BASE_URL")});
    browser.devtools("Browser.grantPermissions", &granted).await;
    browser.open(&demo.url(&path)).await;
    browser.press("Copy").await;
    browser.shows("Copied").await;
    let copied = browser
        .run_until_done("const [done] = arguments; navigator.clipboard.readText().then(done, error => done(String(error)))");
    assert_eq!(copied.await.as_str(), Some(browser.text("#trial").await.as_str()));
    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true})).await;
    browser.open(&demo.url(&path)).await;
    // Scripts run by WebDriver still work.
    assert_eq!(browser.run(OFFERED).await, json!([false]), "a copy button without scripts");
}
