//! Private servers, the processes of a deployment, and a Prometheus that evaluates the alert rules.

use crate::observability::metrics_list::faults_of_process;
use crate::observability::rules;
use crate::pipeline::process;
use local::test_servers::{ClickHouse, Kafka, Postgres};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::secret_encryption::SecretsKey;
use service_kit::settings::{ClickHouseSettings, KafkaSettings, PostgresSettings};
use service_kit::testing::{Seed, TestLog, TestProcess, TestStores, client, eventually, free_address};
use service_kit::{databases, kafka};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub(super) const GATEWAY: &str = "ingest-gateway";
pub(super) const WORKER: &str = "stream-workers";
pub(super) const DELIVERER: &str = "webhook-deliverer";
pub(super) const QUERY: &str = "query-api";
const PROCESSES: [&str; 4] = [GATEWAY, WORKER, DELIVERER, QUERY];

pub(super) type TestApp = service_kit::testing::TestApp<Deployment>;

/// The processes, their servers and Prometheus. Requests of the app go to the gateway.
pub(super) struct Deployment {
    pub(super) stores: TestStores,
    pub(super) broker: Option<Kafka>,
    pub(super) database: Postgres,
    pub(super) clickhouse: ClickHouse,
    /// A platform's API key, for reports.
    pub(super) reporter: String,
    /// An owner's API key, for reads.
    pub(super) owner: String,
    pub(super) secrets: SecretsKey,
    pub(super) processes: BTreeMap<&'static str, TestProcess>,
    /// A background task that runs during a fault.
    pub(super) background_reports: Option<JoinHandle<()>>,
    addresses: BTreeMap<&'static str, (String, String)>,
    prometheus: TestProcess,
    prometheus_url: String,
    folder: TempDir,
}

/// Returns the rules with every `for:` set to one second.
pub(super) fn quickened(rules: &str) -> String {
    let quick = |line: &str| match line.trim_start().strip_prefix("for: ") {
        Some(_) => line.replace(line.trim_start(), "for: 1s"),
        None => line.to_owned(),
    };
    rules.lines().map(quick).collect::<Vec<_>>().join("\n")
}

impl Deployment {
    /// Starts everything and waits until Prometheus has scraped it.
    pub(super) async fn start_all() -> TestApp {
        let folder = tempfile::tempdir().unwrap();
        let (broker, database, clickhouse) = servers(folder.path()).await;
        let stores = stores_on(&broker, &database, &clickhouse).await;
        let seed = Seed(&stores.pool);
        let (reporter, owner) = (seed.org("network", OrgType::Platform).await.key, seed.owner_of("example.com").await.key);
        let addresses: BTreeMap<_, _> =
            PROCESSES.map(|name| (name, (free_address().to_string(), free_address().to_string()))).into();
        let (prometheus, prometheus_url) = prometheus(folder.path(), &addresses);
        let mut stage = Self {
            broker: Some(broker),
            database,
            clickhouse,
            stores,
            reporter,
            owner,
            secrets: SecretsKey::generate(),
            processes: BTreeMap::new(),
            background_reports: None,
            addresses,
            prometheus,
            prometheus_url,
            folder,
        };
        for name in PROCESSES {
            stage.start(name, &[]).await;
        }
        stage.prometheus.wait_until_ok(&format!("{}/-/ready", stage.prometheus_url)).await;
        TestApp::new(stage.stores.clone(), &stage.address(GATEWAY), stage)
    }

    /// Starts or restarts a process with additional settings.
    pub(super) async fn start(&mut self, name: &'static str, more: &[(&'static str, &str)]) {
        if let Some(mut before) = self.processes.remove(name) {
            before.kill_9().await;
        }
        let mut settings = self.settings(name);
        settings.retain(|(name, _)| more.iter().all(|(other, _)| name != other));
        settings.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let (binary, arguments): (&str, &[&str]) = if name == DELIVERER { (WORKER, &["deliver"]) } else { (name, &[]) };
        let mut process = process(binary, arguments, &settings);
        process.wait_until_ok(&format!("{}/health", self.address(name))).await;
        self.processes.insert(name, process);
    }

    fn settings(&self, name: &str) -> Vec<(&'static str, String)> {
        let (listen, metrics) = self.addresses[name].clone();
        let (kafka, clickhouse) = (&self.stores.kafka, &self.stores.clickhouse);
        let mut settings = vec![
            ("TELEMETRY_LISTEN", listen),
            ("TELEMETRY_METRICS_LISTEN", metrics),
            ("DATABASE_URL", self.stores.postgres.database_url.clone()),
        ];
        let log = [
            ("KAFKA_BROKERS", kafka.kafka_brokers.clone()),
            ("TELEMETRY_TOPIC", kafka.topic.clone()),
            ("TELEMETRY_REJECTED_TOPIC", kafka.rejected_topic.clone()),
        ];
        let table = [
            ("CLICKHOUSE_URL", clickhouse.clickhouse_url.clone()),
            ("TELEMETRY_CLICKHOUSE_DATABASE", clickhouse.clickhouse_database.clone()),
        ];
        match name {
            GATEWAY => {
                settings.extend(log);
                // Small, so that the spill fills soon.
                settings.push(("TELEMETRY_SPILL_DIR", self.spill().display().to_string()));
                settings.push(("TELEMETRY_SPILL_MAX_BYTES", (1024 * 1024).to_string()));
                settings.push(("TELEMETRY_MAX_IN_PROGRESS", "4".to_owned()));
            }
            QUERY => {
                settings.extend(table);
                settings.push(("TELEMETRY_READS_PER_KEY", "1".to_owned()));
            }
            DELIVERER => {
                settings.extend(log.into_iter().chain(table));
                settings.push(("TELEMETRY_SECRETS_KEY", self.secrets.reveal().to_owned()));
            }
            _ => settings.extend(log.into_iter().chain(table)),
        }
        settings
    }

    pub(super) fn spill(&self) -> PathBuf {
        self.folder.path().join("spill")
    }

    pub(super) fn address(&self, name: &str) -> String {
        format!("http://{}", self.addresses[name].0)
    }

    pub(super) fn metrics(&self, name: &str) -> String {
        format!("http://{}", self.addresses[name].1)
    }

    /// Reports `count` events in one request and returns the status.
    pub(super) async fn report_events(&self, count: usize) -> u16 {
        report(&self.address(GATEWAY), &self.reporter, count).await
    }

    async fn alerts(&self) -> Vec<Value> {
        let answer = client().get(format!("{}/api/v1/alerts", self.prometheus_url)).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        answer["data"]["alerts"].as_array().unwrap().clone()
    }

    /// Waits until Prometheus has scraped every process and no alert fires.
    pub(super) async fn wait_until_no_alert_fires(&self) {
        eventually("every process is scraped and nothing is wrong", || async {
            (self.is_all_up().await && self.alerts().await.is_empty()).then_some(())
        })
        .await;
    }

    /// Checks that every process has exactly the metrics listed for it once a block is stored.
    pub(super) async fn assert_metrics_are_listed(&self) {
        assert_eq!(self.report_events(1).await, 201);
        TestLog::connect(&self.stores.kafka).caught_up(&self.stores.clickhouse).await;
        for name in PROCESSES {
            let metrics = self.metrics(name);
            eventually(&format!("{name} shows its metrics"), || async {
                let text = client().get(format!("{metrics}/metrics")).send().await.unwrap().text().await.unwrap();
                faults_of_process(name, &text).is_empty().then_some(())
            })
            .await;
        }
    }

    /// Waits until Prometheus has scraped every process again and none of these alerts fires.
    pub(super) async fn wait_until_resolved(&self, alerts: &BTreeSet<String>) {
        let is_one =
            |alert: &Value| alert["state"] == "firing" && alerts.contains(alert["labels"]["alertname"].as_str().unwrap());
        eventually(&format!("{alerts:?} are resolved"), || async {
            let firing = self.alerts().await.into_iter().any(|alert| is_one(&alert));
            (self.is_all_up().await && !firing).then_some(())
        })
        .await;
    }

    async fn is_all_up(&self) -> bool {
        let asked = client().get(format!("{}/api/v1/query?query=sum(up)", self.prometheus_url)).send().await;
        let Ok(answer) = asked else { return false };
        let up: Value = answer.json().await.unwrap_or_default();
        up["data"]["result"][0]["value"][1] == PROCESSES.len().to_string().as_str()
    }

    /// Waits until an alert fires, and checks its text.
    pub(super) async fn wait_until_fires(&self, name: &str) {
        let alert = eventually(&format!("{name} fires"), || async {
            let is_it = |alert: &Value| alert["labels"]["alertname"] == name && alert["state"] == "firing";
            self.alerts().await.into_iter().find(is_it)
        })
        .await;
        for text in ["summary", "description", "runbook_url"] {
            let said = alert["annotations"][text].as_str().unwrap_or_default();
            assert!(!said.is_empty() && !said.contains("<no value>") && !said.contains("<error"), "{name}: {text} is {said:?}");
        }
    }
}

/// Reports `count` events in one request and returns the status, or 0 without a response.
pub(super) async fn report(gateway: &str, key: &str, count: usize) -> u16 {
    let event = |_| {
        json!({"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "edge",
            "id": uuid::Uuid::new_v4(), "content_url": "https://www.example.com/page"})
    };
    let body = json!({"events": (0..count).map(event).collect::<Vec<_>>()}).to_string();
    let request = client().post(format!("{gateway}/events")).header("content-type", "application/json");
    request.header("x-api-key", key).body(body).send().await.map_or(0, |answer| answer.status().as_u16())
}

/// Starts the servers concurrently, because each takes seconds.
async fn servers(folder: &Path) -> (Kafka, Postgres, ClickHouse) {
    let home = |name: &str| folder.join(name);
    let (kafka, postgres, clickhouse) = (home("log"), home("database"), home("store"));
    for folder in [&kafka, &postgres, &clickhouse] {
        std::fs::create_dir(folder).unwrap();
    }
    let (kafka, postgres, clickhouse) = tokio::join!(
        tokio::task::spawn_blocking(move || Kafka::start(&kafka).unwrap()),
        tokio::task::spawn_blocking(move || Postgres::start(&postgres).unwrap()),
        tokio::task::spawn_blocking(move || ClickHouse::start(&clickhouse).unwrap()),
    );
    (kafka.unwrap(), postgres.unwrap(), clickhouse.unwrap())
}

async fn stores_on(broker: &Kafka, database: &Postgres, clickhouse: &ClickHouse) -> TestStores {
    let topic = |name: &str| KafkaSettings {
        topic: name.to_owned(),
        rejected_topic: format!("{name}.rejected"),
        ..KafkaSettings::at(broker.address())
    };
    for name in ["telemetry", "another"] {
        kafka::create_topics(&topic(name)).await.unwrap();
    }
    let postgres = PostgresSettings { database_url: database.url() };
    let pool = databases::postgres(&postgres).unwrap();
    databases::migrate_postgres(&pool).await.unwrap();
    let clickhouse = ClickHouseSettings::at(clickhouse.url(), "telemetry");
    databases::apply_clickhouse_ddl(&clickhouse).await.unwrap();
    TestStores { pool, postgres, clickhouse, kafka: topic("telemetry"), name: "telemetry".to_owned() }
}

fn prometheus(folder: &Path, addresses: &BTreeMap<&'static str, (String, String)>) -> (TestProcess, String) {
    let targets = addresses
        .iter()
        .map(|(service, (_, metrics))| format!("      - {{ targets: ['{metrics}'], labels: {{ service: {service} }} }}\n"));
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yml]\n\
         scrape_configs:\n  - job_name: services\n    static_configs:\n{}",
        targets.collect::<String>()
    );
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    std::fs::write(folder.join("rules.yml"), quickened(&rules::text())).unwrap();
    let ([program, _], address) = (rules::programs(), free_address());
    let process = TestProcess::start(
        &program,
        &[
            &format!("--config.file={}", folder.join("prometheus.yml").display()),
            &format!("--storage.tsdb.path={}", folder.join("series").display()),
            &format!("--web.listen-address={address}"),
            "--log.level=warn",
        ],
        &[] as &[(&str, &str)],
    );
    (process, format!("http://{address}"))
}
