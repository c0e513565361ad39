//! The vocabulary of the tests: records to put on a log of their own, workers, and the rows they leave.
//!
//! Must write records as JSON by hand: an old record must stay readable whatever the types become.

use clickhouse::Client;
use local::private::Kafka;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use service_kit::roles::Role;
use service_kit::settings::KafkaSettings;
use service_kit::testing::{TestLog, TestProcess, TestStores, eventually, free_address};
use service_kit::{kafka, stores};
use std::path::Path;
use stream_workers::partition_stats::Counts;
use stream_workers::{Keep, Settings, Tuning, standing, work};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

pub(crate) const PARTITIONS: i32 = 6;
/// 2026-01-01T00:00:00Z in microseconds.
pub(crate) const NEW_YEAR_US: i64 = 1_767_225_600_000_000;

/// Stores of one test.
pub(crate) struct TestApp {
    pub(crate) stores: TestStores,
    pub(crate) log: TestLog,
    pub(crate) clickhouse: Client,
}

/// A worker inside the test's process; stops when dropped.
pub(crate) struct Working {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl TestApp {
    pub(crate) async fn new() -> Self {
        Self::on(TestStores::fresh().await)
    }

    pub(crate) fn on(stores: TestStores) -> Self {
        let clickhouse = stores::clickhouse(&stores.clickhouse).unwrap();
        Self { log: TestLog::connect(&stores.kafka), clickhouse, stores }
    }

    /// With a broker of its own, which notices a dead member soon.
    pub(crate) async fn with_own_broker(folder: &Path) -> (Self, Kafka) {
        let at = folder.to_owned();
        let broker = spawn_blocking(move || Kafka::start(&at)).await.unwrap().unwrap();
        let fresh = TestStores::fresh().await;
        let kafka = KafkaSettings { kafka_brokers: broker.address(), ..fresh.kafka.clone() };
        kafka::create_topics(&kafka).await.unwrap();
        (Self::on(TestStores { kafka, ..fresh }), broker)
    }

    pub(crate) fn settings(&self) -> Settings {
        settings(&self.stores, &self.group())
    }

    pub(crate) fn group(&self) -> String {
        self.stores.name.clone()
    }

    /// A worker of the test's group.
    pub(crate) fn worker(&self) -> Working {
        Working::start(self.settings())
    }

    /// Lets one worker of `group` read everything, and stops it.
    pub(crate) async fn work_off(&self, group: &str) {
        let worker = Working::start(settings(&self.stores, group));
        self.log.caught_up(group).await;
        worker.stop().await;
    }

    /// The real binary, answering.
    pub(crate) async fn process(&self) -> TestProcess {
        self.process_at(&free_address().to_string(), &free_address().to_string()).await
    }

    pub(crate) async fn process_at(&self, listen: &str, metrics: &str) -> TestProcess {
        self.process_in(listen, &self.environment(listen, metrics)).await
    }

    /// The real binary in an environment that says that it listens here.
    pub(crate) async fn process_in(&self, listen: &str, environment: &[(&'static str, String)]) -> TestProcess {
        let mut process = TestProcess::service(&[], environment);
        process.answers(&format!("http://{listen}/health")).await;
        process
    }

    /// Lets the binary do something that ends by itself; its exit code, stdout and stderr.
    pub(crate) async fn command(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let environment = self.environment(&free_address().to_string(), &free_address().to_string());
        let mut process = TestProcess::service(arguments, &environment);
        let code = process.exit_code().await;
        (code, process.stdout(), process.stderr())
    }

    /// What the binary needs to run on these stores.
    pub(crate) fn environment(&self, listen: &str, metrics: &str) -> Vec<(&'static str, String)> {
        let own = [
            ("TELEMETRY_LISTEN", listen.to_owned()),
            ("TELEMETRY_METRICS_LISTEN", metrics.to_owned()),
            ("TELEMETRY_GROUP", self.group()),
        ];
        // ClickHouse by the account that may also make tables: some of what the binary is told to do is that.
        let stores = TestStores { postgres: self.stores.signed_in_as(Role::Worker).postgres, ..self.stores.clone() };
        own.into_iter().chain(stores.environment()).collect()
    }

    /// Puts records on the log, each on its partition.
    pub(crate) async fn put(&self, records: &[(i32, Value)]) {
        let texts: Vec<(i32, String)> = records.iter().map(|(partition, record)| (*partition, record.to_string())).collect();
        self.log.put_all(texts.iter().map(|(partition, text)| (*partition, text.as_bytes()))).await;
    }

    /// Every observation with every column, in a fixed order.
    pub(crate) async fn table(&self) -> Vec<String> {
        let rows = "SELECT toString(tuple(*)) FROM observations FINAL ORDER BY site, event_key, org_id, observer";
        self.clickhouse.query(rows).fetch_all().await.expect("the table answers")
    }

    /// The event ids that are visible, sorted; an id that is there twice is two of them.
    pub(crate) async fn visible(&self) -> Vec<String> {
        let ids = "SELECT event_id FROM observations FINAL ORDER BY event_id";
        self.clickhouse.query(ids).fetch_all().await.expect("the table answers")
    }

    /// Commits for a group that nobody is a member of, as operators' tools do, and as a build did that did not count.
    pub(crate) async fn put_group(&self, partition: i32, offset: i64, metadata: &'static str) {
        let (settings, group) = (self.stores.kafka.clone(), self.group());
        let committed = async || {
            let (settings, group) = (settings.clone(), group.clone());
            let commit = move || {
                let consumer: BaseConsumer = kafka::client(&settings).unwrap().set("group.id", &group).create().unwrap();
                let mut list = TopicPartitionList::new();
                let mut element = list.add_partition(&settings.topic, partition);
                element.set_offset(Offset::Offset(offset)).unwrap();
                element.set_metadata(metadata);
                consumer.commit(&list, CommitMode::Sync)
            };
            spawn_blocking(commit).await.unwrap().ok()
        };
        eventually("the group is put there, once its member has left", committed).await;
    }

    /// What the commits say of the whole log, which is worked off: every record of it, each once.
    pub(crate) async fn settled(&self) -> Counts {
        let mut all = Counts::default();
        for (partition, (settled, end)) in standing(&self.stores.kafka, &self.group()).await.unwrap() {
            assert_eq!((settled.since, settled.next, settled.missing()), (0, end, 0), "partition {partition}: {settled:?}");
            all += settled.counts;
        }
        all
    }

    /// Rows as the parts hold them, repeats included.
    pub(crate) async fn raw_rows(&self) -> u64 {
        self.clickhouse.query("SELECT count() FROM observations").fetch_one().await.expect("the table answers")
    }
}

pub(crate) fn settings(stores: &TestStores, group: &str) -> Settings {
    let tuning = Tuning { group: group.to_owned(), block_age_ms: 100, takeover_after_ms: 8_000 };
    let (kafka, clickhouse) = (stores.kafka.clone(), stores.clickhouse.clone());
    let postgres = stores.signed_in_as(Role::Worker).postgres;
    Settings { kafka, clickhouse, postgres, tuning, keep: Keep::default() }
}

impl Working {
    pub(crate) fn start(settings: Settings) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        Self { stop, task: tokio::spawn(async move { work(&settings, stopped).await }) }
    }

    /// Stops it; it must not have failed.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.expect("the worker does not panic").expect("the worker does not fail");
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A record of one organisation with these events.
pub(crate) fn record(org: u128, received_at_us: i64, events: &[Value]) -> Value {
    json!({"v": 1, "org": uuid::Uuid::from_u128(org), "received_at_us": received_at_us, "kind": "events", "events": events})
}

/// A retrieval on example.com.
pub(crate) fn event(key: u128) -> Value {
    json!({"own_key": format!("{key:032x}"), "id": format!("event-{key:06}"), "type": "content_retrieved",
        "at_ms": NEW_YEAR_US / 1_000, "site": "com.example", "content_url": "https://example.com/"})
}

/// The values of a column, as text, ordered by event id and observer.
pub(crate) async fn column(app: &TestApp, name: &str) -> Vec<String> {
    let values = format!("SELECT toString({name}) FROM observations FINAL ORDER BY event_id, observer");
    app.clickhouse.query(&values).fetch_all().await.expect("the table answers")
}
