//! Runs the real binary with its own stores, and reports as its demo organizations.

use serde_json::{Value, json};
use service_kit::testing::{TestProcess, TestStores, client, eventually};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_service");

/// A running `telemetry all`.
pub(crate) struct Demo {
    pub(crate) stores: TestStores,
    pub(crate) process: TestProcess,
    /// Content of `demo.env`.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) client: reqwest::Client,
    folder: TempDir,
}

/// Status, content type and body of a response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

impl Demo {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts the demo with additional settings.
    pub(crate) async fn start_with(more: &[(&'static str, String)]) -> Self {
        Self::start_on(TestStores::unprepared().await, tempfile::tempdir().unwrap(), more).await
    }

    /// Starts another process on the same stores.
    pub(crate) async fn start_second(&self, more: &[(&'static str, String)]) -> Self {
        Self::start_on(self.stores.clone(), tempfile::tempdir().unwrap(), more).await
    }

    /// Starts a new process with the same stores and folder. The previous one must have ended.
    pub(crate) async fn start_again(self) -> Self {
        Self::start_on(self.stores, self.folder, &[]).await
    }

    async fn start_on(stores: TestStores, folder: TempDir, more: &[(&'static str, String)]) -> Self {
        let settings: Vec<_> = settings(&stores, folder.path()).into_iter().chain(more.iter().cloned()).collect();
        let mut process = TestProcess::start(Path::new(BINARY), &["all"], &settings);
        let screen = std::sync::Mutex::new(&mut process);
        eventually("the last screen is printed", || async {
            let mut process = screen.lock().unwrap();
            let is_up = process.stdout().contains("docs/README.md");
            assert!(is_up || !process.has_ended(), "the process ended early and printed:\n{}", process.stderr());
            is_up.then_some(())
        })
        .await;
        let env = read_env(folder.path());
        Self { stores, process, env, client: client(), folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a value of `demo.env`.
    pub(crate) fn env(&self, name: &str) -> &str {
        self.env.get(name).unwrap_or_else(|| panic!("demo.env has no {name}"))
    }

    /// Returns all values of `demo.env`.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.env("BASE_URL"))
    }

    pub(crate) async fn post(&self, key: &str, body: &Value) -> Response {
        self.post_text(key, body.to_string()).await
    }

    pub(crate) async fn post_text(&self, key: &str, body: String) -> Response {
        let request = self.client.post(self.url("/events")).header("content-type", "application/json");
        send_request(request.header("x-api-key", key).body(body)).await
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> Response {
        send_request(self.client.get(self.url(path)).header("x-api-key", key)).await
    }

    pub(crate) async fn total_events(&self) -> Option<u64> {
        self.get(self.env("OWNER_KEY"), "/content-owners/summary").await.body["total_events"].as_u64()
    }

    /// Waits until the owner's summary has `expected` events.
    pub(crate) async fn wait_for_events(&self, expected: u64) {
        eventually(&format!("the summary counts {expected}"), || async {
            (self.total_events().await == Some(expected)).then_some(())
        })
        .await;
    }
}

/// Returns the settings of `telemetry all` for these stores.
pub(crate) fn settings(stores: &TestStores, folder: &Path) -> Vec<(&'static str, String)> {
    let own = [
        ("TELEMETRY_LISTEN", "127.0.0.1:0".to_owned()),
        ("TELEMETRY_METRICS_LISTEN", service_kit::testing::free_address().to_string()),
        ("TELEMETRY_STATE_DIR", folder.display().to_string()),
        ("TELEMETRY_TAKEOVER_AFTER_MS", "1000".to_owned()),
        // Reports become visible soon, because waiting tests poll ClickHouse.
        ("TELEMETRY_BLOCK_AGE_MS", "50".to_owned()),
    ];
    own.into_iter().chain(stores.environment()).collect()
}

/// Parses `demo.env` the way a shell would.
fn read_env(folder: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(folder.join("demo.env")).expect("demo.env is missing");
    let assignment = |line: &str| {
        let (name, value) = line.split_once('=').expect("a line is not an assignment");
        let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).expect("a value is not quoted");
        (name.to_owned(), value.to_owned())
    };
    text.lines().map(assignment).collect()
}

pub(crate) async fn send_request(request: reqwest::RequestBuilder) -> Response {
    let response = request.send().await.expect("the service sent no response");
    let content_type = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    let status = response.status().as_u16();
    let text = response.text().await.expect("the body is incomplete");
    Response { status, content_type, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

/// Returns a report of a fetched page on example.com in a role. For agents, it has a session.
pub(crate) fn retrieval(role: &str, content_telemetry_id: &str) -> Value {
    let mut event = json!({
        "type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": role,
        "content_url": "https://www.example.com/page", "content_telemetry_id": content_telemetry_id,
    });
    if role == "agent" {
        event["session_id"] = json!("67e55044-10b1-426f-9247-bb680e5fe0c8");
    }
    json!({"events": [event]})
}
