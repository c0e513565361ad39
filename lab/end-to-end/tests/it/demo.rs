//! Runs the real binary with its own stores, and reports as its demo organizations.

use serde_json::{Value, json};
use service_kit::testing::{TestApp, TestProcess, TestStores, eventually};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_service");

pub(crate) type DemoApp = TestApp<Demo>;

/// A running `telemetry all`.
pub(crate) struct Demo {
    pub(crate) process: TestProcess,
    /// Content of `demo.env`.
    pub(crate) env: BTreeMap<String, String>,
    folder: TempDir,
}

impl Demo {
    pub(crate) async fn start() -> DemoApp {
        Self::start_with(&[]).await
    }

    /// Starts the demo with additional settings.
    pub(crate) async fn start_with(more: &[(&'static str, String)]) -> DemoApp {
        Self::start_on(TestStores::unprepared().await, tempfile::tempdir().unwrap(), more).await
    }

    /// Starts another process on the same stores.
    pub(crate) async fn start_second(first: &DemoApp, more: &[(&'static str, String)]) -> DemoApp {
        Self::start_on(first.stores.clone(), tempfile::tempdir().unwrap(), more).await
    }

    /// Starts a new process with the same stores and folder. The previous one must have ended.
    pub(crate) async fn start_again(demo: DemoApp) -> DemoApp {
        Self::start_on(demo.stores, demo.service.folder, &[]).await
    }

    async fn start_on(stores: TestStores, folder: TempDir, more: &[(&'static str, String)]) -> DemoApp {
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
        TestApp::new(stores, &env["BASE_URL"].clone(), Self { process, env, folder })
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
}

/// Returns the number of events in the owner's summary.
pub(crate) async fn total_events(demo: &DemoApp) -> u64 {
    let read = async || Some(demo.get_summary(demo.env("OWNER_KEY"), &[]).await).filter(|answer| answer.status != 503);
    let summary = eventually("the service returns no 503", read).await.expect(200);
    summary.body["total_events"].as_u64().unwrap()
}

/// Waits until acknowledged data is visible in reads. Before that, records that the log hasn't acknowledged in time are in the spill,
/// and coverage rows are in the gateway.
pub(crate) async fn caught_up<S>(app: &TestApp<S>, demo: &Demo) {
    const WAITING: [&str; 2] = ["gateway_spill_pending_records ", "gateway_drain_coverage_waiting "];
    eventually("the gateway has no pending data", || async {
        let text = app.client.get(demo.env("METRICS_URL")).send().await.ok()?.text().await.ok()?;
        let waiting = text.lines().filter_map(|line| WAITING.iter().find_map(|name| line.strip_prefix(name)));
        waiting.map(str::trim).all(|number| number == "0").then_some(())
    })
    .await;
    app.caught_up().await;
}

/// Waits until the worker has stored everything, and checks that the owner's summary has `expected` events.
pub(crate) async fn wait_for_events(demo: &DemoApp, expected: u64) {
    caught_up(demo, demo).await;
    assert_eq!(total_events(demo).await, expected);
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
