//! Real Chromium, by the WebDriver protocol: what its accessibility checker finds, and what its console complains of.
//!
//! Must not load anything into a page but the checker, which the driver runs beside the page's own policy.

use super::drains::{address, drains, feed, pasted_key};
use super::{AGENT_SCREENS, OWNER_SCREENS, Reader};
use crate::demo::{Demo, answer};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use service_kit::testing::{TestProcess, client, eventually, free_address, npm_package};
use std::path::{Path, PathBuf};

/// Pixels of a telephone's screen, and of a tablet's.
const NARROW_WIDTHS: [u32; 2] = [390, 834];
const AXE_VERSION: &str = "4.14.1";

pub(super) struct Browser {
    client: reqwest::Client,
    session: String,
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

impl Browser {
    pub(super) async fn start(is_dark: bool) -> Self {
        let address = free_address();
        let driver = TestProcess::start::<&str, &str>(&program("chromedriver"), &[&format!("--port={}", address.port())], &[]);
        let (client, base) = (client(), format!("http://{address}"));
        eventually("the driver answers", || async { client.get(format!("{base}/status")).send().await.ok() }).await;
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
        if is_dark {
            arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        let options = json!({"args": arguments, "binary": program("chromium")});
        let asked =
            json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let answer: Value = client.post(format!("{base}/session")).json(&asked).send().await.unwrap().json().await.unwrap();
        let id = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {answer}"));
        Self { client, session: format!("{base}/session/{id}"), _driver: driver, _profile: profile }
    }

    pub(super) async fn command(&self, path: &str, body: &Value) -> Value {
        let sent = self.client.post(format!("{}{path}", self.session)).json(body).send().await.unwrap();
        let mut answer: Value = sent.json().await.unwrap();
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].take()
    }

    pub(super) async fn open(&self, url: &str) {
        self.command("/url", &json!({"url": url})).await;
    }

    pub(super) async fn run(&self, script: &str) -> Value {
        self.command("/execute/sync", &json!({"script": script, "args": []})).await
    }

    async fn run_until_done(&self, script: &str) -> Value {
        self.run_until_done_with(script, &json!([])).await
    }

    pub(super) async fn run_until_done_with(&self, script: &str, arguments: &Value) -> Value {
        self.command("/execute/async", &json!({"script": script, "args": arguments})).await
    }

    /// What only Chromium's own protocol can do.
    pub(super) async fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await
    }

    pub(super) async fn sign_in(&self, demo: &Demo, variable: &str) {
        self.open(&demo.url("/sign-in")).await;
        let cookie =
            json!({"cookie": {"name": "telemetry-session", "value": demo.env(variable), "httpOnly": true, "sameSite": "Lax"}});
        self.command("/cookie", &cookie).await;
    }

    /// Shows pages as a telephone or a tablet does.
    async fn be_narrow(&self, width: u32) {
        let screen = json!({"width": width, "height": 1112, "deviceScaleFactor": 2, "mobile": true});
        self.devtools("Emulation.setDeviceMetricsOverride", &screen).await;
    }

    /// Shows pages on a screen of that size.
    pub(super) async fn be_wide(&self, width: u32, height: u32) {
        let screen = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &screen).await;
    }

    /// What is on the screen, as a PNG.
    pub(super) async fn picture(&self) -> Vec<u8> {
        let taken = self.devtools("Page.captureScreenshot", &json!({"format": "png"})).await;
        BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }

    /// What the browser complained of since it was last asked.
    async fn complaints(&self) -> Vec<Value> {
        let said = self.command("/se/log", &json!({"type": "browser"})).await;
        said.as_array().cloned().unwrap_or_default()
    }
}

fn axe() -> String {
    let folder = npm_package("axe-core", AXE_VERSION, env!("CARGO_TARGET_TMPDIR").as_ref());
    std::fs::read_to_string(folder.join(Path::new("node_modules/axe-core/axe.min.js"))).unwrap()
}

const CHECK: &str = "const done = arguments[arguments.length - 1];\
    axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then(\
    found => done(found.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).join('; '))),\
    error => done([String(error)]));";

pub(super) async fn demo_with_an_event() -> Demo {
    let demo = Demo::start().await;
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let report = json!({"type": "content_retrieved", "timestamp": now, "source_role": "agent",
        "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "content_url": "https://www.example.com/page"});
    assert_eq!(demo.post(demo.env("AGENT_KEY"), &json!({"events": [report]})).await.status, 201);
    demo.counts(1).await;
    demo
}

/// What each of them has to look at, by the session that may.
pub(super) async fn addresses(demo: &Demo) -> Vec<(&'static str, Vec<String>)> {
    let own = |variable: &str, screen: &str| demo.url(&format!("/console/o/{}/{screen}", demo.env(variable)));
    let mut owners: Vec<String> = ["/sign-in", "/sign-in?token=abc", "/sign-in/invite?token=abc", "/console/organizations"]
        .into_iter()
        .chain(["/console/requests"])
        .map(|path| demo.url(path))
        .collect();
    owners.extend([new_drain(demo).await.0, demo.url(&format!("{}?with=vercel", drains(demo)))]);
    owners.extend(OWNER_SCREENS.map(|screen| own("OWNER_ORG_ID", screen)));
    owners.push(own("OWNER_ORG_ID", "events?live=1"));
    owners.push(own("OWNER_ORG_ID", "events?event_type=content_cited&agent_id=nobody"));
    let listed = demo.get(demo.env("OWNER_KEY"), "/content-owners/events?limit=1").await.body;
    owners.push(own("OWNER_ORG_ID", &format!("event/{}", listed["items"][0]["event_id"].as_str().unwrap())));
    let partner = demo.env("NETWORK_ORG_ID");
    let asked = demo.client.post(demo.url("/api/v1/identity/delegations")).header("x-api-key", demo.env("OWNER_KEY"));
    assert_eq!(answer(asked.json(&json!({"grantee_org_id": partner}))).await.status, 201);
    owners.push(own("OWNER_ORG_ID", &format!("overview?seen_by={partner}")));
    let agents = AGENT_SCREENS.map(|screen| own("AGENT_ORG_ID", screen)).to_vec();
    let operators =
        ["requests", "organizations", "pipeline"].map(|screen| demo.url(&format!("/console/operator/{screen}"))).to_vec();
    vec![("OWNER_SESSION", owners), ("AGENT_SESSION", agents), ("OPERATOR_SESSION", operators)]
}

/// Whether a page loads nothing from elsewhere, breaks no rule of its own policy, and has no barrier.
async fn look_at(browser: &Browser, demo: &Demo, axe: &str, address: &str) {
    browser.open(address).await;
    let loaded = browser.run("return performance.getEntriesByType('resource').map(e => [e.name, e.encodedBodySize])").await;
    let own = demo.env("BASE_URL");
    let foreign: Vec<_> =
        loaded.as_array().unwrap().iter().filter(|entry| !entry[0].as_str().unwrap().starts_with(own)).collect();
    assert!(foreign.is_empty(), "{address}: {foreign:?}");
    // As if none of it had been loaded before.
    let page = browser.run("return performance.getEntriesByType('navigation')[0].encodedBodySize").await.as_u64().unwrap();
    let sizes: Vec<u64> = loaded.as_array().unwrap().iter().map(|entry| entry[1].as_u64().unwrap()).collect();
    assert!(page > 0 && !sizes.is_empty() && sizes.iter().all(|size| *size > 0), "{address}: {page}, {loaded}");
    let whole = page + sizes.iter().sum::<u64>();
    assert!(whole <= 100 * 1024, "{address} takes {whole} bytes: {page}, {loaded}");
    assert!(browser.run("return document.title").await.as_str().is_some_and(|title| title.ends_with("Content Telemetry")));
    let complaints = browser.complaints().await;
    assert!(complaints.is_empty(), "{address}: {complaints:?}");
    browser.run(axe).await;
    let barriers = browser.run_until_done(CHECK).await;
    assert_eq!(barriers, json!([]), "{address}");
}

#[tokio::test]
async fn u2_u3_a_browser_finds_no_barrier_no_violation_and_no_other_origin_on_any_page() {
    let demo = demo_with_an_event().await;
    let (axe, addresses) = (axe(), addresses(&demo).await);
    for is_dark in [false, true] {
        let browser = Browser::start(is_dark).await;
        let shown = browser.run("return matchMedia('(prefers-color-scheme: dark)').matches").await;
        assert_eq!(shown, is_dark, "the browser shows what was asked for");
        for (session, addresses) in &addresses {
            browser.sign_in(&demo, session).await;
            for address in addresses {
                look_at(&browser, &demo, &axe, address).await;
            }
        }
        for narrow in NARROW_WIDTHS {
            browser.be_narrow(narrow).await;
            for (session, addresses) in &addresses {
                browser.sign_in(&demo, session).await;
                for address in addresses {
                    browser.open(address).await;
                    let width = browser.run("return document.documentElement.scrollWidth").await;
                    assert_eq!(width, narrow, "{address}: no page is wider than its screen");
                }
            }
        }
    }
}

/// The first event appears while the page is open.
#[tokio::test]
async fn u5_the_first_event_arrives_without_reloading() {
    let demo = Demo::start().await;
    let browser = Browser::start(false).await;
    browser.sign_in(&demo, "OWNER_SESSION").await;
    browser.open(&demo.url(&format!("/console/o/{}/start", demo.env("OWNER_ORG_ID")))).await;
    browser.run("window.isTheSamePage = true").await;
    let text = "return document.getElementById('arrival').textContent";
    assert!(browser.run(text).await.as_str().unwrap().contains("Waiting"));
    let sent = demo.post(demo.env("AGENT_KEY"), &crate::demo::retrieval("agent", "3f0c2a36-5a61-4f6b-8f4e-52f3a4f0d009")).await;
    assert_eq!(sent.status, 201);
    eventually("the event is on the page", || async {
        browser.run(text).await.as_str()?.contains("The first event is here").then_some(())
    })
    .await;
    assert_eq!(browser.run("return window.isTheSamePage").await, true);
    let time = browser.run("return document.querySelector('#arrival time').hasAttribute('data-local')").await;
    assert_eq!(time, true, "also what arrives is in the reader's zone");
    assert!(browser.complaints().await.is_empty());
}

/// The address of a new drain's page, and its key.
async fn new_drain(demo: &Demo) -> (String, String) {
    let mut owner = Reader::signed_in(demo, "OWNER_SESSION");
    let page = owner.open(&format!("{}?with=code", drains(demo))).await;
    let page = owner.press(&page, "/drains", &[("name", "our server")]).await;
    (demo.url(&address(&page)), pasted_key(&page).unwrap())
}

/// Lines are told of while the page is open.
#[tokio::test]
async fn u5_the_first_lines_of_a_drain_arrive_without_reloading() {
    let demo = Demo::start().await;
    let (address, key) = new_drain(&demo).await;
    let browser = Browser::start(false).await;
    browser.sign_in(&demo, "OWNER_SESSION").await;
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
    assert_eq!(feed(&demo, &key, &["GPTBot/1.2", "Mozilla/5.0", "Mozilla/4.0"].map(line).concat()).await, 200);
    eventually("the lines are on the page", || async {
        browser.run(text).await.as_str()?.contains("3 lines, 1 AI, 2 people\u{2019}s dropped").then_some(())
    })
    .await;
    assert_eq!(browser.run("return window.isTheSamePage").await, true);
    assert!(browser.complaints().await.is_empty());
}

/// Events appear by themselves on the live page, and what they say stays text.
#[tokio::test]
async fn u5_new_events_appear_on_the_live_page_without_reloading() {
    let demo = Demo::start().await;
    let browser = Browser::start(false).await;
    browser.sign_in(&demo, "OWNER_SESSION").await;
    browser.open(&demo.url(&format!("/console/o/{}/events?live=1", demo.env("OWNER_ORG_ID")))).await;
    browser.run("window.isTheSamePage = true").await;
    let text = "return document.getElementById('tail').textContent";
    assert!(browser.run(text).await.as_str().unwrap().contains("Waiting for the first event"));
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let event = json!({"type": "content_retrieved", "timestamp": now, "source_role": "edge",
        "content_url": "https://www.example.com/<img src=x onerror=alert(1)>"});
    assert_eq!(demo.post(demo.env("OWNER_KEY"), &json!({"events": [event]})).await.status, 201);
    eventually("the event is on the page", || async {
        browser.run(text).await.as_str()?.contains("onerror=alert(1)").then_some(())
    })
    .await;
    assert_eq!(browser.run("return window.isTheSamePage").await, true);
    assert_eq!(browser.run("return document.querySelectorAll('#tail img').length").await, 0);

    // who reads a row is not interrupted
    let open = "document.querySelector('#tail details').open = true; window.asked = 0; \
        document.addEventListener('htmx:before:request', function () { window.asked += 1; });";
    browser.run(open).await;
    eventually("the page would ask again", || async { (browser.run("return window.asked").await.as_u64()? > 1).then_some(()) })
        .await;
    assert_eq!(browser.run("return document.querySelectorAll('#tail details[open]').length").await, 1);
    assert!(browser.complaints().await.is_empty());
}
