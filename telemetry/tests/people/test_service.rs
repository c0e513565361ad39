//! The whole service on its own stores.

use crate::terminal::Terminal;
use serde_json::Value;
use service_kit::testing::{TestProcess, TestStores, eventually, free_address};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tempfile::TempDir;

pub(crate) struct Service {
    _process: TestProcess,
    environment: BTreeMap<String, String>,
    pub(crate) stores: TestStores,
    folder: TempDir,
    clone: TempDir,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(further: &[(&'static str, String)]) -> Self {
        let (stores, folder) = (TestStores::fresh().await, tempfile::tempdir().unwrap());
        let own = [
            ("TELEMETRY_LISTEN", "127.0.0.1:0".to_owned()),
            ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
            ("TELEMETRY_STATE_DIR", folder.path().display().to_string()),
        ];
        let settings: Vec<_> = own.into_iter().chain(store_settings(&stores)).chain(further.iter().cloned()).collect();
        let mut process = TestProcess::service(&[], &settings);
        let screen = Mutex::new(&mut process);
        eventually("the service is up", || async {
            let mut process = screen.lock().unwrap();
            let is_up = process.stdout().contains("docs/README.md");
            assert!(is_up || !process.has_ended(), "the process exited early; its output:\n{}", process.stderr());
            is_up.then_some(())
        })
        .await;
        let clone = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), clone.path().join(".local")).unwrap();
        let text = std::fs::read_to_string(folder.path().join("demo.env")).unwrap();
        let assignments = text.lines().filter_map(|line| line.split_once('='));
        let environment = assignments.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect();
        Self { _process: process, environment, stores, folder, clone }
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        self.environment.get(name).unwrap_or_else(|| panic!("demo.env has no {name}"))
    }

    pub(crate) fn url(&self) -> &str {
        self.value("BASE_URL")
    }

    /// Returns a terminal with the service's address and a key of `demo.env`.
    pub(crate) fn terminal(&self, key: &str) -> Terminal {
        Terminal::new().with("TELEMETRY_URL", self.url()).with("TELEMETRY_KEY", self.value(key))
    }

    /// Returns a directory with the service's `.local`, like the clone that runs it.
    pub(crate) fn clone_folder(&self) -> &Path {
        self.clone.path()
    }

    /// Returns settings for names that tests must not share.
    pub(crate) fn unique_names(&self) -> Vec<(&'static str, String)> {
        let addresses = ["KAFKA_BROKERS", "CLICKHOUSE_URL", "DATABASE_URL"];
        store_settings(&self.stores).into_iter().filter(|(name, _)| !addresses.contains(name)).collect()
    }

    /// Returns an operator's terminal, with the addresses of the stores.
    pub(crate) fn operators_terminal(&self) -> Terminal {
        store_settings(&self.stores).iter().fold(Terminal::new(), |terminal, (name, value)| terminal.with(name, value))
    }

    /// Records a round of `telemetry query-api analysts` in PostgreSQL, which permits creating accounts.
    pub(crate) async fn record_analyst_maintenance(&self) {
        let round = "INSERT INTO analyst_upkeep (seen_at) VALUES (now())";
        sqlx::query(round).execute(&self.stores.pool).await.unwrap();
    }

    pub(crate) fn mail(&self) -> Option<String> {
        let files = std::fs::read_dir(self.folder.path().join("mail")).ok()?;
        let newest: Option<PathBuf> = files
            .filter_map(|file| Some(file.ok()?.path()))
            .max_by_key(|path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok());
        std::fs::read_to_string(newest?).ok()
    }

    /// Returns the link in the first mail after `before`.
    pub(crate) async fn mailed_link(&self, before: Option<&String>) -> String {
        eventually("the email is sent", || async {
            let mail = self.mail().filter(|mail| Some(mail) != before)?;
            let plain = mail.replace("=\r\n", "").replace("=3D", "=");
            plain.split_whitespace().find(|word| word.contains("token=")).map(str::to_owned)
        })
        .await
    }
}

fn store_settings(stores: &TestStores) -> Vec<(&'static str, String)> {
    stores.environment().into_iter().chain([("TELEMETRY_GROUP", stores.name.clone())]).collect()
}

/// Waits until the summary of this terminal's organization contains this many events.
pub(crate) async fn wait_for_events(terminal: &Terminal, expected: u64) {
    eventually(&format!("the summary counts {expected}"), || async {
        let summary: Value = terminal.run(&["summary", "-o", "json"]).json();
        (summary["total_events"].as_u64() == Some(expected)).then_some(())
    })
    .await;
}
