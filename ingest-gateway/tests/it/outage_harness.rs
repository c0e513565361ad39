//! Gateway processes and a private broker that can be killed, to compare the topic with the confirmed requests.

use crate::harness::{retrieval, with};
use local::test_servers::Kafka;
use schemas::identity::OrgType;
use schemas::log::LogRecord;
use serde_json::{Value, json};
use service_kit::roles::Role;
use service_kit::settings::KafkaSettings;
use service_kit::testing::{Seed, TestLog, TestProcess, TestStores, client, eventually, free_address};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// A broker, a key and a spill folder for starting gateways.
pub(crate) struct OutageFixture {
    pub(crate) stores: TestStores,
    pub(crate) kafka: KafkaSettings,
    pub(crate) key: String,
    pub(crate) folder: TempDir,
    broker: Option<Kafka>,
}

pub(crate) struct Process {
    pub(crate) child: TestProcess,
    pub(crate) url: String,
    pub(crate) sender: Sender,
}

#[derive(Clone)]
pub(crate) struct Sender {
    url: String,
    client: reqwest::Client,
    key: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) id: String,
    pub(crate) status: u16,
    pub(crate) took: Duration,
    pub(crate) says_when: bool,
}

impl OutageFixture {
    pub(crate) async fn new() -> Self {
        let site = Self::without_topics().await;
        service_kit::kafka::create_topics(&site.kafka).await.expect("the topics are created");
        site
    }

    pub(crate) async fn without_topics() -> Self {
        let (stores, folder) = (TestStores::with_topics().await, tempfile::tempdir().expect("a folder is made"));
        let path = folder.path().to_owned();
        let broker =
            tokio::task::spawn_blocking(move || Kafka::start(&path)).await.expect("it does not panic").expect("a broker starts");
        let kafka = KafkaSettings { kafka_brokers: broker.address(), ..stores.kafka.clone() };
        let key = Seed(&stores.pool).org("agent", OrgType::Agent).await.key;
        Self { stores, kafka, key, folder, broker: Some(broker) }
    }

    /// The broker. Panics while it is being killed or restarted.
    pub(crate) fn broker(&self) -> &Kafka {
        self.broker.as_ref().expect("there is a broker")
    }

    pub(crate) async fn kill_broker(&mut self) {
        self.on_broker(Kafka::kill_9).await;
    }

    pub(crate) async fn restart_broker(&mut self) {
        self.on_broker(|broker| broker.restart().expect("the broker comes back")).await;
    }

    async fn on_broker(&mut self, work: impl FnOnce(&mut Kafka) + Send + 'static) {
        let mut broker = self.broker.take().expect("there is a broker");
        let worked = tokio::task::spawn_blocking(move || {
            work(&mut broker);
            broker
        });
        self.broker = Some(worked.await.expect("the work does not panic"));
    }

    pub(crate) fn spill(&self) -> PathBuf {
        self.folder.path().join("spill")
    }

    /// Starts a gateway without waiting for it.
    pub(crate) fn launch(&self, settings: &[(&str, &str)]) -> Process {
        let (own, url) = process_settings(&self.stores, &self.kafka, &self.spill());
        let given = settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let all: Vec<(&str, String)> = own.into_iter().chain(given).collect();
        let child = TestProcess::service(&[], &all);
        let sender = Sender { url: format!("{url}/events"), client: client(), key: self.key.clone() };
        Process { child, url, sender }
    }

    /// Starts a gateway and waits until it is up.
    pub(crate) async fn start(&self, settings: &[(&str, &str)]) -> Process {
        let mut process = self.launch(settings);
        let health = format!("{}/health", process.url);
        process.child.wait_until_ok(&health).await;
        process
    }

    /// Returns the ids on the topic, ordered by partition. An id may occur twice.
    pub(crate) async fn ids(&self) -> Vec<String> {
        let records = self.records().await;
        records.into_iter().flat_map(|record| record.events).filter_map(|event| event.id).collect()
    }

    pub(crate) async fn records(&self) -> Vec<LogRecord> {
        TestLog::connect(&self.kafka).all_records().await
    }

    /// Waits until the spill is drained. The last file is deleted a second after the last record.
    pub(crate) async fn drained(&self) {
        let spill = self.spill();
        eventually("the spill is drained", || async { spilled_files(&spill).is_empty().then_some(()) }).await;
    }
}

pub(crate) fn process_settings(
    stores: &TestStores,
    kafka: &KafkaSettings,
    spill: &Path,
) -> (Vec<(&'static str, String)>, String) {
    let listen = free_address();
    let settings = vec![
        ("TELEMETRY_LISTEN", listen.to_string()),
        ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
        ("KAFKA_BROKERS", kafka.kafka_brokers.clone()),
        ("TELEMETRY_TOPIC", kafka.topic.clone()),
        ("TELEMETRY_REJECTED_TOPIC", kafka.rejected_topic.clone()),
        ("DATABASE_URL", stores.signed_in_as(Role::Gateway).postgres.database_url),
        ("TELEMETRY_SPILL_DIR", spill.to_string_lossy().into_owned()),
    ];
    (settings, format!("http://{listen}"))
}

impl Sender {
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    pub(crate) async fn post(&self, id: &str) -> Outcome {
        self.post_event(id, &with(retrieval("https://a.test/"), json!({"id": id}))).await
    }

    /// Sends until the log acknowledges a record in time, which may take several tries on a busy machine.
    pub(crate) async fn post_until_acknowledged(&self, id: &str) {
        let begun = Instant::now();
        while self.post(id).await.status != 201 {
            assert!(begun.elapsed() < Duration::from_secs(120), "the log acknowledged no record");
        }
    }

    pub(crate) async fn post_event(&self, id: &str, event: &Value) -> Outcome {
        let started = Instant::now();
        let request = self.client.post(&self.url).header("content-type", "application/json");
        let sent = request.header("x-api-key", &self.key).body(json!({"events": [event]}).to_string()).send().await;
        let (status, says_when) = match sent {
            Ok(response) => (response.status().as_u16(), response.headers().contains_key("retry-after")),
            Err(_) => (0, false),
        };
        Outcome { id: id.to_owned(), status, took: started.elapsed(), says_when }
    }
}

pub(crate) struct Load {
    senders: JoinSet<Vec<Outcome>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Starts `count` senders. Each waits for its response before sending again.
    pub(crate) fn start(process: &Process, name: &str, count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut senders = JoinSet::new();
        for sender in 0..count {
            let (stop, name, own) = (Arc::clone(&stop), name.to_owned(), process.sender.clone());
            senders.spawn(async move {
                let mut outcomes = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let outcome = own.post(&format!("{name}-{sender}-{}", outcomes.len())).await;
                    let is_gone = outcome.status == 0;
                    outcomes.push(outcome);
                    if is_gone {
                        break;
                    }
                }
                outcomes
            });
        }
        Self { senders, stop }
    }

    pub(crate) async fn stop(self) -> Vec<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        self.senders.join_all().await.into_iter().flatten().collect()
    }
}

pub(crate) fn acked(outcomes: &[Outcome]) -> std::collections::BTreeSet<String> {
    outcomes.iter().filter(|outcome| outcome.status == 201).map(|outcome| outcome.id.clone()).collect()
}

pub(crate) fn spilled_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "spill")).collect()
}

/// Returns whether the spill's files currently contain this text.
pub(crate) fn is_spilled(folder: &Path, text: &str) -> bool {
    let contents = spilled_files(folder).into_iter().map(|path| std::fs::read(path).unwrap_or_default());
    contents.into_iter().any(|bytes| bytes.windows(text.len()).any(|found| found == text.as_bytes()))
}
