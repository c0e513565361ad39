//! Drives Chromium over WebDriver, and checks accessibility and errors in the browser console.

use super::click_token::TokenSession;
use super::drains::{drains, new_drain};
use super::{AGENT_SCREENS, OWNER_SCREENS};
use crate::demo::{Demo, DemoApp, wait_for_events};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::TimeDelta;
use serde_json::{Value, json};
use service_kit::testing::{Credentials, TestProcess, client, eventually, free_address, npm_package};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Screen widths of a phone and a tablet, in pixels.
const NARROW_WIDTHS: [u32; 2] = [390, 834];
/// Maximum transfer size of a page and its resources, in bytes.
const MAX_BYTES: u64 = 100 * 1024;
const AXE_VERSION: &str = "4.14.1";

pub(super) struct Browser {
    client: reqwest::Client,
    session: String,
    /// Process id of Chromium, which keeps running if its driver is killed.
    process: u64,
    _driver: TestProcess,
    _profile: tempfile::TempDir,
}

fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| {
        panic!("this test needs {name}: install Chromium and its driver (apt-get install chromium chromium-driver)")
    })
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").args(["-KILL", &self.process.to_string()]).status();
    }
}

impl Browser {
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a browser with additional arguments.
    pub(super) async fn start_with(more: &[&str]) -> Self {
        let address = free_address();
        let driver = TestProcess::start::<&str, &str>(&program("chromedriver"), &[&format!("--port={}", address.port())], &[]);
        let (client, base) = (client(), format!("http://{address}"));
        eventually("the driver responds", || async { client.get(format!("{base}/status")).send().await.ok() }).await;
        let profile = tempfile::tempdir().unwrap();
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1440,1000",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        let options = json!({"args": arguments, "binary": program("chromium")});
        let asked =
            json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let answer: Value = client.post(format!("{base}/session")).json(&asked).send().await.unwrap().json().await.unwrap();
        let id = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {answer}"));
        let process =
            answer["value"]["capabilities"]["goog:processID"].as_u64().expect("the driver did not return the id of its process");
        Self { client, session: format!("{base}/session/{id}"), process, _driver: driver, _profile: profile }
    }

    pub(super) async fn command(&self, path: &str, body: &Value) -> Value {
        let sent = self.client.post(format!("{}{path}", self.session)).json(body).send().await.unwrap();
        let mut answer: Value = sent.json().await.unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].take()
    }

    /// Opens a page. Retries on 503, which a busy machine may return.
    pub(super) async fn open(&self, url: &str) {
        for _ in 0..10 {
            self.command("/url", &json!({"url": url})).await;
            if self.run("return performance.getEntriesByType('navigation')[0]?.responseStatus").await != 503 {
                return;
            }
            eprintln!("{url}: 503, and {:?}", self.console_errors().await);
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        panic!("{url}: 503 ten times");
    }

    pub(super) async fn run(&self, script: &str) -> Value {
        self.command("/execute/sync", &json!({"script": script, "args": []})).await
    }

    pub(super) async fn run_until_done(&self, script: &str) -> Value {
        self.run_until_done_with(script, &json!([])).await
    }

    pub(super) async fn run_until_done_with(&self, script: &str, arguments: &Value) -> Value {
        self.command("/execute/async", &json!({"script": script, "args": arguments})).await
    }

    /// Runs a command of the DevTools protocol.
    pub(super) async fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await
    }

    pub(super) async fn sign_in(&self, demo: &DemoApp, variable: &str) {
        self.open(&demo.url("/sign-in")).await;
        let cookie =
            json!({"cookie": {"name": "telemetry-session", "value": demo.env(variable), "httpOnly": true, "sameSite": "Lax"}});
        self.command("/cookie", &cookie).await;
    }

    /// Returns the id of the first element that matches an XPath.
    async fn element(&self, path: &str) -> String {
        let found = self.command("/element", &json!({"using": "xpath", "value": path})).await;
        found
            .as_object()
            .and_then(|found| found.values().next()?.as_str())
            .unwrap_or_else(|| panic!("{path}: {found}"))
            .to_owned()
    }

    /// Replaces a field's value.
    pub(super) async fn fill(&self, name: &str, text: &str) {
        let field = self.element(&format!("//main//*[@name='{name}'][not(@type='hidden')]")).await;
        self.command(&format!("/element/{field}/clear"), &json!({})).await;
        self.command(&format!("/element/{field}/value"), &json!({"text": text})).await;
    }

    /// Clicks the first button or link whose text starts with these words, preferably in the page's main section.
    pub(super) async fn press(&self, words: &str) {
        let is_it = format!("normalize-space() = '{words}' or starts-with(normalize-space(), '{words} ')");
        let of = |part: &str| format!("//{part}//*[self::button or self::a][{is_it}]");
        let it = self.element(&format!("({} | {}[not({})])[1]", of("main"), of("header"), of("main"))).await;
        self.command(&format!("/element/{it}/click"), &json!({})).await;
    }

    /// Waits until the page contains this text.
    pub(super) async fn shows(&self, text: &str) {
        let said = std::sync::Mutex::new(Value::Null);
        let shown = eventually_or_none(async || {
            let page = self.run("return [location.pathname, document.body ? document.body.textContent : '']").await;
            let is_said = page[1].as_str().is_some_and(|page| page.contains(text));
            *said.lock().unwrap() = page;
            is_said
        })
        .await;
        assert!(shown, "{text:?} is not on the page: {}", said.lock().unwrap());
    }

    /// Returns the text of the first element that matches a selector.
    pub(super) async fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector({}).textContent", json!(selector))).await;
        text.as_str().unwrap().to_owned()
    }

    /// Emulates the screen of a phone or tablet.
    async fn be_narrow(&self, width: u32) {
        let screen = json!({"width": width, "height": 1112, "deviceScaleFactor": 2, "mobile": true});
        self.devtools("Emulation.setDeviceMetricsOverride", &screen).await;
    }

    /// Emulates a desktop screen.
    pub(super) async fn be_wide(&self, width: u32, height: u32) {
        let screen = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &screen).await;
    }

    /// Emulates the light or dark color scheme, without animations.
    pub(super) async fn prefer(&self, scheme: &str) {
        let wanted = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]});
        self.devtools("Emulation.setEmulatedMedia", &wanted).await;
    }

    /// Returns a screenshot in PNG format.
    pub(super) async fn picture(&self) -> Vec<u8> {
        let taken = self.devtools("Page.captureScreenshot", &json!({"format": "png"})).await;
        BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }

    /// Returns the browser console's entries since the last call.
    pub(super) async fn console_errors(&self) -> Vec<Value> {
        let said = self.command("/se/log", &json!({"type": "browser"})).await;
        said.as_array().cloned().unwrap_or_default()
    }
}

/// Polls until the condition is true, for at most 30 seconds.
async fn eventually_or_none(mut ask: impl AsyncFnMut() -> bool) -> bool {
    for _ in 0..300 {
        if ask().await {
            return true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    false
}

pub(super) fn axe() -> String {
    let folder = npm_package("axe-core", AXE_VERSION, env!("CARGO_TARGET_TMPDIR").as_ref());
    std::fs::read_to_string(folder.join(Path::new("node_modules/axe-core/axe.min.js"))).unwrap()
}

const CHECK: &str = "const [rules, done] = arguments;\
    axe.run(document, {runOnly: rules}).then(\
    found => done(found.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).join('; '))),\
    error => done([String(error)]));";

/// WCAG 2.2 AA rules.
const ALL: [&str; 5] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
/// Rules about colors.
const COLOR_RULES: [&str; 2] = ["color-contrast", "link-in-text-block"];

const IS_DARK: &str = "return matchMedia('(prefers-color-scheme: dark)').matches";

pub(super) async fn demo_with_an_event() -> DemoApp {
    let demo = Demo::start().await;
    let now = service_kit::clock::Clock::System.now();
    let report = json!({"type": "content_retrieved", "timestamp": now.to_rfc3339(), "source_role": "agent",
        "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "content_url": "https://www.example.com/page"});
    assert_eq!(demo.report(demo.env("AGENT_KEY"), &json!({"events": [report]})).await.status, 201);
    let link = TokenSession::create(&demo, Some("answer-engine")).await;
    link.end(&demo, json!({"type": "conversion", "value_amount": 4_999, "currency": "EUR"})).await;
    let click = link.click(now - TimeDelta::minutes(1), "https://www.example.com/page");
    assert_eq!(demo.report(demo.env("NETWORK_KEY"), &json!({"events": [click]})).await.status, 201);
    wait_for_events(&demo, 2).await;
    demo
}

/// Returns a sign-in link that another program requested.
async fn link_of_another_browser(demo: &DemoApp) -> String {
    const EMAIL: &str = "elsewhere@example.net";
    assert_eq!(demo.post("", "/api/v1/identity/auth/magic-link", &json!({"email": EMAIL})).await.status, 202);
    eventually("the email arrives", || async { super::sign_up::mailed_link(demo, EMAIL) }).await
}

/// Returns the pages to check, grouped by the session that can open them.
pub(super) async fn addresses(demo: &DemoApp) -> Vec<(&'static str, Vec<String>)> {
    let own = |variable: &str, screen: &str| demo.url(&format!("/console/o/{}/{screen}", demo.env(variable)));
    let mut owners: Vec<String> = ["/sign-in", "/sign-in/invite?token=abc", "/console/organizations", "/console/requests"]
        .into_iter()
        .map(|path| demo.url(path))
        .collect();
    owners.push(link_of_another_browser(demo).await);
    owners.extend([new_drain(demo).await.0, demo.url(&format!("{}?with=vercel", drains(demo)))]);
    owners.extend(OWNER_SCREENS.map(|screen| own("OWNER_ORG_ID", screen)));
    owners.push(own("OWNER_ORG_ID", "events?live=1"));
    owners.push(own("OWNER_ORG_ID", "events?event_type=content_cited&agent_id=nobody"));
    owners.extend(
        ["by=section", "path=/page*", "path=/none/*", "path=none"].map(|asked| own("OWNER_ORG_ID", &format!("pages?{asked}"))),
    );
    let listed = demo.get(demo.env("OWNER_KEY"), "/content-owners/events?limit=1").await.body;
    owners.push(own("OWNER_ORG_ID", &format!("event/{}", listed["items"][0]["event_id"].as_str().unwrap())));
    let partner = demo.env("NETWORK_ORG_ID");
    let (key, grant) = (demo.env("OWNER_KEY"), json!({"grantee_org_id": partner}));
    assert_eq!(demo.post(key, "/api/v1/identity/delegations", &grant).await.status, 201);
    owners.push(own("OWNER_ORG_ID", &format!("overview?seen_by={partner}")));
    let wish = json!({"org_name": "Wished", "admin_email": "owner@example.com", "use_case": "to be reviewed"});
    let of_agent = format!("delegation-requests?organization_id={}", demo.env("AGENT_ORG_ID"));
    for (session, path, body) in
        [("OWNER_SESSION", "agent-access-requests", wish), ("AGENT_SESSION", of_agent.as_str(), json!({"domain": "example.com"}))]
    {
        let by = Credentials::Session(demo.env(session));
        assert_eq!(demo.post(by, &format!("/api/v1/identity/{path}"), &body).await.status, 201, "{path}");
    }
    let hook = json!({"url": "https://receiver.example.net/telemetry", "event_types": ["delegation.created"]});
    let hook = format!("webhooks/{}", demo.post(key, "/api/v1/identity/webhooks", &hook).await.text("id"));
    assert!(demo.post(key, &format!("/api/v1/identity/{hook}/test"), &json!({})).await.status < 300);
    owners.push(own("OWNER_ORG_ID", &hook));
    let mut agents = AGENT_SCREENS.map(|screen| own("AGENT_ORG_ID", screen)).to_vec();
    agents.push(own("AGENT_ORG_ID", "clicks?since=2026-01-01&until=2026-01-01"));
    agents.push(own("AGENT_ORG_ID", "partners"));
    let operators = ["requests", "organizations", "usage", "dead-letters", "webhooks", "webhooks?which=all", &hook];
    let operators = operators.map(|screen| demo.url(&format!("/console/operator/{screen}"))).to_vec();
    vec![("OWNER_SESSION", owners), ("AGENT_SESSION", agents), ("OPERATOR_SESSION", operators)]
}

/// Excludes the requests that live pages make after they have loaded, because their number depends on the machine's speed.
const LOADED_SIZES: &str = "const loaded = performance.getEntriesByType('navigation')[0].loadEventEnd;\
    return performance.getEntriesByType('resource').filter(e => e.initiatorType !== 'fetch' || e.startTime < loaded).map(e => e.encodedBodySize)";

/// Returns the transfer size of a page and its resources with an empty cache, in bytes.
async fn bytes_of(browser: &Browser, address: &str) -> u64 {
    let loaded = browser.run(LOADED_SIZES).await;
    let page = browser.run("return performance.getEntriesByType('navigation')[0].encodedBodySize").await.as_u64().unwrap();
    let sizes: Vec<u64> = loaded.as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).collect();
    assert!(page > 0 && !sizes.is_empty() && sizes.iter().all(|size| *size > 0), "{address}: {page}, {loaded}");
    page + sizes.iter().sum::<u64>()
}

/// Checks that a page loads no foreign resources, follows its content security policy, is accessible in both color schemes, and fits the
/// screen.
pub(super) async fn check_page(browser: &Browser, demo: &DemoApp, axe: &str, address: &str) {
    browser.open(address).await;
    let loaded = browser.run("return performance.getEntriesByType('resource').map(e => e.name)").await;
    let own = demo.env("BASE_URL");
    let foreign: Vec<_> = loaded.as_array().unwrap().iter().filter(|entry| !entry.as_str().unwrap().starts_with(own)).collect();
    assert!(foreign.is_empty(), "{address}: {foreign:?}");
    let whole = bytes_of(browser, address).await;
    assert!(whole <= MAX_BYTES, "{address} takes {whole} bytes");
    assert!(browser.run("return document.title").await.as_str().is_some_and(|title| title.ends_with("Content Telemetry")));
    browser.run(axe).await;
    for (scheme, rules) in [("light", &ALL[..]), ("dark", &COLOR_RULES)] {
        browser.prefer(scheme).await;
        assert_eq!(browser.run(IS_DARK).await, scheme == "dark", "wrong color scheme");
        let barriers = browser.run_until_done_with(CHECK, &json!([rules])).await;
        assert_eq!(barriers, json!([]), "{address}, {scheme}");
    }
    for narrow in NARROW_WIDTHS {
        browser.be_narrow(narrow).await;
        let width = browser.run("return document.documentElement.scrollWidth").await;
        assert_eq!(width, narrow, "{address}: the page is wider than its screen");
    }
    browser.devtools("Emulation.clearDeviceMetricsOverride", &json!({})).await;
    let mut complaints = browser.console_errors().await;
    // The browser also logs the status of rejected requests.
    complaints.retain(|complaint| !(address.ends_with("path=none") && complaint.to_string().contains("(Bad Request)")));
    assert!(complaints.is_empty(), "{address}: {complaints:?}");
}

/// A4 without margins, in pixels.
const SHEET: (u32, u32) = (718, 1_016);
/// Tables that are wider than the sheet, with one pixel of tolerance for rounding.
const CUT: &str = "const tables = [...document.querySelectorAll('.scroll')].filter(one => !one.closest('details'));\
    return tables.filter(one => one.scrollWidth > one.clientWidth + 1 || getComputedStyle(one).overflowX !== 'visible')\
        .map(one => one.getAttribute('aria-label') + ': ' + one.scrollWidth + ' of ' + one.clientWidth)";

/// Checks that printed pages show every column of their tables.
pub(super) async fn print(browser: &Browser, address: &str) {
    browser.devtools("Emulation.setEmulatedMedia", &json!({"media": "print"})).await;
    browser.devtools("Emulation.setScrollbarsHidden", &json!({"hidden": true})).await;
    browser.be_wide(SHEET.0, SHEET.1).await;
    assert_eq!(browser.run(CUT).await, json!([]), "{address}");
    assert_eq!(browser.run("return document.documentElement.scrollWidth").await, SHEET.0, "{address}");
    browser.devtools("Emulation.setScrollbarsHidden", &json!({"hidden": false})).await;
    browser.devtools("Emulation.setEmulatedMedia", &json!({"media": ""})).await;
    browser.devtools("Emulation.clearDeviceMetricsOverride", &json!({})).await;
}

/// Left, right and top edges of the overview's grid and its tiles.
const TILES: &str = "const sides = element => [element.left, element.right, element.top].map(Math.round);\
    const grid = document.querySelector('.tiles');\
    return [sides(grid.getBoundingClientRect()), ...[...grid.children].map(tile => sides(tile.getBoundingClientRect()))];";
/// Scrolls the first table that is wider than its card to the right end. Returns the edges of the card and of a row header, and how the
/// scroll shadow is painted.
const WIDE: &str = "const wide = [...document.querySelectorAll('.scroll')].find(one => one.scrollWidth > one.clientWidth);\
    if (!wide) return null;\
    wide.scrollLeft = wide.scrollWidth;\
    const [card, header] = [wide, wide.querySelector('tbody th:first-child')].map(one => one.getBoundingClientRect());\
    return [card.left, header.left, header.right, card.right, getComputedStyle(wide).backgroundAttachment, wide.scrollLeft];";

/// Taps a bar of the chart. Returns whether the menu is shown, its text, whether it is open, and whether the bar's values are shown.
const ON_A_PHONE: &str = "const menu = document.querySelector('details.menu'), bar = document.querySelector('.chart .bucket');\
    bar.dispatchEvent(new MouseEvent('click', {bubbles: true}));\
    const value = document.querySelector('.chart .value');\
    const are_shown = value.checkVisibility() && value.textContent === bar.querySelector('title').textContent;\
    return [menu.checkVisibility(), menu.querySelector('summary').textContent, menu.open, are_shown];";

/// Checks that tiles fill their rows, and that a wide table keeps its row headers visible and indicates that it scrolls.
pub(super) async fn check_layout(browser: &Browser, demo: &DemoApp) {
    browser.sign_in(demo, "OWNER_SESSION").await;
    let own = |screen: &str| demo.url(&format!("/console/o/{}/{screen}", demo.env("OWNER_ORG_ID")));
    browser.open(&own("overview")).await;
    for (width, rows) in [(390, 3), (834, 2), (1024, 2), (1440, 1)] {
        browser.be_wide(width, 1000).await;
        let sides: Vec<[i64; 3]> = serde_json::from_value(browser.run(TILES).await).unwrap();
        let ([left, right, _], tiles) = (sides[0], &sides[1..]);
        let tops: BTreeSet<i64> = tiles.iter().map(|tile| tile[2]).collect();
        assert_eq!((tiles.len(), tops.len()), (6, rows), "{width}: {sides:?}");
        for top in tops {
            let row = tiles.iter().filter(|tile| tile[2] == top);
            let ends = (row.clone().map(|tile| tile[0]).min(), row.map(|tile| tile[1]).max());
            assert_eq!(ends, (Some(left), Some(right)), "{width}: {sides:?}");
        }
    }
    browser.open(&own("assistants")).await;
    let wide = browser.run(WIDE).await;
    assert!(wide.is_null(), "a table is wider than its card at 1440 pixels: {wide}");
    browser.open(&own("overview")).await;
    browser.be_wide(390, 844).await;
    assert_eq!(browser.run(ON_A_PHONE).await, json!([true, "Menu · Overview", false, true]));
    for screen in ["overview", "pages", "funnel?by=url", "corroboration", "keys"] {
        browser.open(&own(screen)).await;
        let wide = browser.run(WIDE).await;
        let side = |at: usize| wide[at].as_f64().unwrap_or_else(|| panic!("{screen} has no wide table: {wide}"));
        assert!(side(5) > 50.0 && side(1) >= side(0) && side(2) <= side(0) + 200.0, "{screen}: {wide}");
        assert_eq!(wide[4], "local, local, scroll, scroll", "{screen}");
    }
}
