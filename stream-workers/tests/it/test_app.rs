//! Test helpers: records for the log, workers, and the rows that they store.
//!
//! Records are written as JSON by hand, because old records must stay readable whatever the current types are.

use clickhouse::Client;
use serde_json::{Value, json};
use service_kit::databases;
use service_kit::roles::Role;
use service_kit::testing::{TestLog, TestProcess, TestStores, eventually, free_address};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};
use stream_workers::partition_stats::{Counts, PartitionStats};
use stream_workers::{RetentionSettings, Settings, Tuning, progress_by_partition, run_worker};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const PARTITIONS: i32 = 6;
/// A standby takes over soon, so tests are short.
const TAKEOVER_AFTER_MS: u64 = 1_000;
/// 2026-01-01T00:00:00Z in microseconds.
pub(crate) const NEW_YEAR_US: i64 = 1_767_225_600_000_000;

pub(crate) type Setting = (&'static str, String);

pub(crate) type TestApp = service_kit::testing::TestApp<Workers>;

/// What the tests do with workers on the app's stores.
pub(crate) struct Workers {
    stores: TestStores,
    pub(crate) log: TestLog,
    pub(crate) clickhouse: Client,
}

pub(crate) struct RunningWorker {
    pub(crate) process: TestProcess,
    pub(crate) listen: String,
    pub(crate) metrics: String,
}

/// A worker or a deliverer inside the test's process. Stops when dropped.
pub(crate) struct RunningTask {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Workers {
    pub(crate) async fn start() -> TestApp {
        Self::on(TestStores::fresh().await)
    }

    pub(crate) fn on(stores: TestStores) -> TestApp {
        let clickhouse = databases::clickhouse(&stores.clickhouse).unwrap();
        let workers = Self { log: TestLog::connect(&stores.kafka), clickhouse, stores: stores.clone() };
        TestApp::new(stores, "", workers)
    }

    pub(crate) fn settings(&self) -> Settings {
        settings(&self.stores)
    }

    pub(crate) fn worker(&self) -> RunningTask {
        RunningTask::start(self.settings())
    }

    pub(crate) async fn process_all(&self) {
        let worker = self.worker();
        self.log.caught_up(&self.stores.clickhouse).await;
        worker.stop().await;
    }

    /// Returns the number of records on the log after the stored offsets.
    pub(crate) async fn not_stored(&self) -> i64 {
        self.log.not_stored(&self.stores.clickhouse).await
    }

    /// Returns the stored progress of each partition, and its end.
    pub(crate) async fn progress(&self) -> BTreeMap<i32, (PartitionStats, i64)> {
        let progress = async || progress_by_partition(&self.stores.kafka, &self.stores.clickhouse).await.ok();
        eventually("the servers respond", progress).await
    }

    /// Starts the binary with these additional settings.
    pub(crate) fn launch(&self, besides: impl IntoIterator<Item = Setting>) -> TestProcess {
        TestProcess::service(&[], &self.environment(besides))
    }

    /// Starts the binary, and waits until it responds.
    pub(crate) async fn process(&self) -> TestProcess {
        self.watched([]).await.process
    }

    /// Starts the binary with these additional settings, and waits until it responds.
    pub(crate) async fn watched(&self, besides: impl IntoIterator<Item = Setting>) -> RunningWorker {
        let (listen, metrics) = (free_address().to_string(), free_address().to_string());
        let own = [("TELEMETRY_LISTEN", listen.clone()), ("TELEMETRY_METRICS_LISTEN", metrics.clone())];
        let mut process = self.launch(own.into_iter().chain(besides));
        process.wait_until_ok(&format!("http://{listen}/health")).await;
        RunningWorker { process, listen, metrics }
    }

    pub(crate) async fn crash_at(&self, point: &str) {
        let mut worker = self.launch([("FAIL_POINT", format!("{point}:1/1"))]);
        assert_eq!(worker.exit_code().await, None, "it dies at {point}: {}", worker.stderr());
    }

    /// Runs a command of the binary; returns its exit code, stdout and stderr.
    pub(crate) async fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.command_with(arguments, []).await
    }

    pub(crate) async fn command_with(
        &self,
        arguments: &[&str],
        besides: impl IntoIterator<Item = Setting>,
    ) -> (Option<i32>, String, String) {
        let mut process = TestProcess::service(arguments, &self.environment(besides));
        let code = process.exit_code().await;
        (code, process.stdout(), process.stderr())
    }

    /// Runs a replay of the binary while a worker runs; returns its exit code, stdout and stderr.
    pub(crate) async fn replay(&self, options: &[&str]) -> (Option<i32>, String, String) {
        let worker = self.worker();
        let ended = self.command(&[&["replay"], options].concat()).await;
        worker.stop().await;
        ended
    }

    /// Returns the binary's settings for these stores. Of two settings with the same name, the last counts.
    fn environment(&self, besides: impl IntoIterator<Item = Setting>) -> Vec<Setting> {
        let own = [
            ("TELEMETRY_LISTEN", free_address().to_string()),
            ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
            ("TELEMETRY_GROUP", self.stores.name.clone()),
            ("TELEMETRY_TAKEOVER_AFTER_MS", TAKEOVER_AFTER_MS.to_string()),
        ];
        // Use the ClickHouse account that can create tables, because some commands need it.
        let stores = TestStores { postgres: self.stores.signed_in_as(Role::Worker).postgres, ..self.stores.clone() };
        own.into_iter().chain(stores.environment()).chain(besides).collect()
    }

    /// Puts records on the log, each on its partition.
    pub(crate) async fn put(&self, records: &[(i32, Value)]) {
        let texts: Vec<(i32, String)> = records.iter().map(|(partition, record)| (*partition, record.to_string())).collect();
        self.log.put_all(texts.iter().map(|(partition, text)| (*partition, text.as_bytes()))).await;
    }

    /// Returns all rows of both tables, without the columns that depend on the reading order.
    pub(crate) async fn table(&self) -> Vec<String> {
        let rows = "SELECT toString(tuple(* EXCEPT version)) FROM events FINAL ORDER BY site, at, key \
            UNION ALL SELECT toString(tuple(* EXCEPT (version, origin_partition, origin_offset))) FROM reports FINAL \
            ORDER BY organization, at, identity SETTINGS do_not_merge_across_partitions_select_final = 1";
        let mut rows: Vec<String> = self.clickhouse.query(rows).fetch_all().await.expect("the tables can be read");
        rows.sort_unstable();
        rows
    }

    /// Returns all reports' event ids, sorted. An id with two reports occurs twice.
    pub(crate) async fn visible(&self) -> Vec<String> {
        let ids = "SELECT event_id FROM reports FINAL WHERE is_issuers = 0 ORDER BY event_id";
        self.clickhouse.query(ids).fetch_all().await.expect("the table can be read")
    }

    pub(crate) async fn events(&self) -> u64 {
        self.clickhouse.query("SELECT count() FROM events FINAL").fetch_one().await.expect("the table can be read")
    }

    /// Returns the counts of all records. Asserts that no offset is missing.
    pub(crate) async fn processed(&self) -> Counts {
        let mut all = Counts::default();
        for (partition, (stats, end)) in self.progress().await {
            assert_eq!((stats.since, stats.next, stats.missing()), (0, end, 0), "partition {partition}: {stats:?}");
            all += stats.counts;
        }
        all
    }

    pub(crate) async fn empty(&self) {
        for table in ["progress", "events", "reports", "failed_fetches", "sites", "writers", "replays"] {
            self.clickhouse.query(&format!("TRUNCATE TABLE {table}")).execute().await.expect("the table can be emptied");
        }
    }
}

pub(crate) fn settings(stores: &TestStores) -> Settings {
    let tuning = Tuning {
        group: stores.name.clone(),
        block_age_ms: 100,
        takeover_after_ms: TAKEOVER_AFTER_MS,
        shard: schemas::shard::Shard::default(),
    };
    let (kafka, clickhouse) = (stores.kafka.clone(), stores.clickhouse.clone());
    let postgres = stores.signed_in_as(Role::Worker).postgres;
    Settings { kafka, clickhouse, postgres, tuning, keep: RetentionSettings::default() }
}

impl RunningTask {
    pub(crate) fn start(settings: Settings) -> Self {
        Self::until_stopped(|stop| async move { run_worker(&settings, stop).await })
    }

    pub(crate) fn until_stopped<F: Future<Output = anyhow::Result<()>> + Send + 'static>(
        run: impl FnOnce(CancellationToken) -> F,
    ) -> Self {
        let stop = CancellationToken::new();
        Self { task: tokio::spawn(run(stop.clone())), stop }
    }

    /// Stops the task, and asserts that it didn't fail.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(60), &mut self.task).await.expect("the task ends");
        ended.expect("the task does not panic").expect("it does not fail");
    }

    /// Asserts that the task keeps running for this time, and that `look` passes repeatedly.
    pub(crate) async fn assert_running(&self, how_long: Duration, look: impl AsyncFn()) {
        let begun = Instant::now();
        while begun.elapsed() < how_long {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(!self.task.is_finished(), "the task ended instead of waiting for its store");
            look().await;
        }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) fn record(org: u128, received_at_us: i64, events: &[Value]) -> Value {
    json!({"v": 1, "org": uuid::Uuid::from_u128(org), "received_at_us": received_at_us, "kind": "events", "events": events})
}

pub(crate) fn event(key: u128) -> Value {
    json!({"own_key": format!("{key:032x}"), "id": format!("event-{key:06}"), "type": "content_retrieved",
        "at_ms": NEW_YEAR_US / 1_000, "site": "com.example", "content_url": "https://example.com/"})
}

/// Returns one record for each of these events, over all partitions.
pub(crate) fn stream(keys: Range<u128>) -> Vec<(i32, Value)> {
    keys.map(|n| (i32::try_from(n).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event(n)]))).collect()
}

pub(crate) fn ids(keys: Range<u128>) -> Vec<String> {
    keys.map(|n| format!("event-{n:06}")).collect()
}

/// Returns the values of a column of `reports` as text, ordered by event id and role.
pub(crate) async fn column(app: &TestApp, name: &str) -> Vec<String> {
    let values = format!("SELECT toString({name}) FROM reports FINAL WHERE is_issuers = 0 ORDER BY event_id, source_role");
    app.clickhouse.query(&values).fetch_all().await.expect("the table can be read")
}
