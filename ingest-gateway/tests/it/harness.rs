//! A gateway with its own stores, and a reader for its records.

use ingest_gateway::{Document, DrainSettings, Durability, Limits, Settings, State, dry_run, routes};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataPartition;
use rdkafka::{Message, Offset, TopicPartitionList};
use schemas::identity::OrgType;
use schemas::log::{LogEvent, LogRecord};
use schemas::problem::Fault;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::http::{self, ApiError};
use service_kit::kafka;
use service_kit::roles::Role;
use service_kit::secret_encryption::SecretsSettings;
use service_kit::settings::{KafkaSettings, WebhookSettings};
use service_kit::testing::{Seed, TestServer, TestStores, client, eventually};
use std::time::Duration;
use tempfile::TempDir;

/// A session that was never started.
pub(crate) const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const BROKER_PATIENCE: Duration = Duration::from_secs(30);
const AT: &str = "2026-11-01T10:00:00Z";

pub(crate) struct Gateway {
    pub(crate) stores: TestStores,
    pub(crate) server: TestServer,
    client: reqwest::Client,
    _spill: TempDir,
}

pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        let stores = TestStores::with_topics().await;
        Self::start_on(stores, Durability::default()).await
    }

    pub(crate) async fn with_agent() -> (Self, String) {
        let gateway = Self::start().await;
        let key = gateway.key("agent", OrgType::Agent).await;
        (gateway, key)
    }

    pub(crate) async fn key(&self, name: &str, org_type: OrgType) -> String {
        self.seed().org(name, org_type).await.key
    }

    pub(crate) async fn start_with(limits: Limits) -> Self {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { limits, ..usual }).await
    }

    pub(crate) async fn start_draining(drains: DrainSettings) -> Self {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { drains, ..usual }).await
    }

    /// Starts a gateway with these encryption keys for stored secrets.
    pub(crate) async fn start_opening(secrets: SecretsSettings) -> Self {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { secrets, ..usual }).await
    }

    /// Starts a gateway that fetches agents' key sets with these settings.
    pub(crate) async fn start_fetching(webhooks: WebhookSettings) -> Self {
        Self::start_fetching_on(TestStores::with_topics().await, webhooks).await
    }

    pub(crate) async fn start_fetching_on(stores: TestStores, webhooks: WebhookSettings) -> Self {
        Self::start_as(stores, |usual| Settings { webhooks, ..usual }).await
    }

    /// Starts a gateway with these durability settings. Unless they name a spill folder, it gets its own.
    pub(crate) async fn start_on(stores: TestStores, durability: Durability) -> Self {
        Self::start_as(stores, |usual| Settings { durability, ..usual }).await
    }

    async fn start_as(stores: TestStores, changed: impl FnOnce(Settings) -> Settings) -> Self {
        let spill = tempfile::tempdir().expect("a folder is made");
        let mut settings = changed(Settings::on(stores.kafka.clone(), stores.signed_in_as(Role::Gateway).postgres));
        settings.durability.spill_dir.get_or_insert_with(|| spill.path().to_owned());
        let state = State::connect(&settings, Clock::System).await.expect("the gateway connects");
        let server = TestServer::start(http::with_request_middleware(routes(state))).await;
        Self { stores, server, client: client(), _spill: spill }
    }

    /// Starts another gateway on the same stores.
    pub(crate) async fn beside(&self) -> Self {
        Self::start_on(self.stores.clone(), Durability::default()).await
    }

    pub(crate) fn seed(&self) -> Seed<'_> {
        Seed(&self.stores.pool)
    }

    pub(crate) fn request(&self, key: Option<&str>) -> reqwest::RequestBuilder {
        self.request_to("/events", key)
    }

    pub(crate) fn request_to(&self, path: &str, key: Option<&str>) -> reqwest::RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.server.url)).header("content-type", "application/json");
        key.into_iter().fold(request, |request, key| request.header("x-api-key", key))
    }

    pub(crate) async fn post_to(&self, path: &str, key: &str, body: &Value) -> TestResponse {
        send_request(self.request_to(path, Some(key)).body(body.to_string())).await
    }

    pub(crate) async fn post(&self, key: &str, body: &Value) -> TestResponse {
        self.post_text(Some(key), body.to_string()).await
    }

    pub(crate) async fn post_text(&self, key: Option<&str>, body: impl Into<reqwest::Body>) -> TestResponse {
        send_request(self.request(key).body(body)).await
    }

    pub(crate) async fn start_session(&self, key: &str, members: &Value) -> String {
        let started = self.post_to("/sessions/start", key, members).await;
        assert_eq!(started.status, 201, "{}", started.body);
        started.body["session_id"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn create_token(&self, key: &str, session: &str, url: &str) -> String {
        let created = self.post_to("/click-tokens", key, &json!({"session_id": session, "content_url": url})).await;
        assert_eq!(created.status, 201, "{}", created.body);
        created.body["token"].as_str().expect("a token").to_owned()
    }

    pub(crate) async fn all_records(&self) -> Vec<LogRecord> {
        self.records(usize::try_from(self.record_count()).expect("a count")).await
    }

    pub(crate) async fn all_events(&self) -> Vec<LogEvent> {
        self.all_records().await.into_iter().flat_map(|record| record.events).collect()
    }

    /// Returns the first `count` records of the topic, ordered by partition.
    pub(crate) async fn records(&self, count: usize) -> Vec<LogRecord> {
        let texts = self.record_texts(count).await;
        texts.iter().map(|text| serde_json::from_str(text).expect("it is a record")).collect()
    }

    /// Like [`Self::records`], but returns JSON.
    pub(crate) async fn record_texts(&self, count: usize) -> Vec<String> {
        eventually("the records arrive", || async {
            let settings = self.stores.kafka.clone();
            let texts = blocking(move || read_topic(&settings)).await;
            (texts.len() >= count).then(|| texts.into_iter().take(count).collect())
        })
        .await
    }

    pub(crate) fn record_count(&self) -> i64 {
        consumer(&self.stores.kafka).1
    }
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("the work does not panic")
}

/// Reads every record of the topic, ordered by partition. Blocks.
pub(crate) fn read_topic(settings: &KafkaSettings) -> Vec<String> {
    let (consumer, count) = consumer(settings);
    let read = |_| {
        let message = consumer.poll(BROKER_PATIENCE).expect("a record arrives").expect("it is read");
        String::from_utf8(message.payload().expect("a record has a value").to_vec()).expect("a record is text")
    };
    (0..count).map(read).collect()
}

/// Returns a consumer at the beginning of every partition, and the total number of records.
fn consumer(settings: &KafkaSettings) -> (BaseConsumer, i64) {
    let client = kafka::client(settings).expect("the settings are good").set("group.id", "observer").create();
    let consumer: BaseConsumer = client.expect("a consumer is made");
    let metadata = consumer.fetch_metadata(Some(&settings.topic), BROKER_PATIENCE).expect("the broker responds");
    // Assign partitions instead of subscribing, because closing a consumer that is still joining its group can hang.
    let (mut assigned, mut count) = (TopicPartitionList::new(), 0);
    for partition in metadata.topics()[0].partitions().iter().map(MetadataPartition::id) {
        let (low, high) = watermarks(&consumer, &settings.topic, partition);
        count += high - low;
        assigned.add_partition_offset(&settings.topic, partition, Offset::Beginning).expect("the offset is valid");
    }
    consumer.assign(&assigned).expect("partitions are assigned");
    (consumer, count)
}

/// Returns a partition's offsets. Retries, because a new topic may not have leaders yet.
fn watermarks(consumer: &BaseConsumer, topic: &str, partition: i32) -> (i64, i64) {
    for _ in 0..40 {
        if let Ok(found) = consumer.fetch_watermarks(topic, partition, BROKER_PATIENCE) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    panic!("the broker returns no offsets of partition {partition}")
}

pub(crate) async fn send_request(request: reqwest::RequestBuilder) -> TestResponse {
    let response = request.send().await.expect("the gateway responds");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("the body arrives");
    TestResponse { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

impl TestResponse {
    /// Returns each fault as `index.field:code`.
    pub(crate) fn faults(&self) -> Vec<String> {
        let faults: Vec<Fault> = serde_json::from_value(self.body["errors"].clone()).unwrap_or_default();
        faults.iter().map(name_of_fault).collect()
    }
}

fn name_of_fault(fault: &Fault) -> String {
    let place = fault.index.map(|index| format!("{index}.")).unwrap_or_default();
    format!("{place}{}:{}", fault.field, fault.code)
}

/// Returns a body's record without using a store. All click tokens are unknown.
pub(crate) fn dry_post(path: &str, body: impl AsRef<[u8]>) -> Result<LogRecord, ApiError> {
    let (document, _) = Document::ALL.into_iter().find(|(_, of)| *of == path).expect("a route that has a body");
    let now = chrono::DateTime::from_timestamp(1_793_530_000, 0).expect("a time in range");
    dry_run(body.as_ref(), document, &Limits::default(), now)
}

/// Like [`dry_post`], but returns the status and the faults.
pub(crate) fn try_body(path: &str, body: impl AsRef<[u8]>) -> Result<LogRecord, (u16, Vec<String>)> {
    dry_post(path, body).map_err(|error| (error.code().status(), error.listed().iter().map(name_of_fault).collect()))
}

/// Returns one event's stored form, or its faults.
pub(crate) fn try_event(event: &Value) -> Result<LogEvent, Vec<String>> {
    let tried = try_body("/events", json!({"events": [event]}).to_string());
    tried.map(|mut record| record.events.remove(0)).map_err(|(_, faults)| faults)
}

/// Returns the head of an HTTP/1.1 request with a body of this length.
pub(crate) fn head(path: &str, key: &str, length: usize) -> String {
    format!("{}content-length: {length}\r\n\r\n", open_head(path, key))
}

/// Like [`head`], without the length and the end, so headers can follow.
pub(crate) fn open_head(path: &str, key: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n")
}

pub(crate) fn retrieval(url: &str) -> Value {
    json!({"type": "content_retrieved", "timestamp": AT, "source_role": "edge", "content_url": url})
}

/// Returns an event about a page, with these members replaced, or removed if null.
pub(crate) fn event(event_type: &str, members: Value) -> Value {
    with(json!({"type": event_type, "timestamp": AT, "content_url": "https://a.test/x"}), members)
}

/// Returns `object` with these members replaced, or removed if null.
pub(crate) fn with(mut object: Value, members: Value) -> Value {
    let (Value::Object(target), Value::Object(members)) = (&mut object, members) else { panic!("both are objects") };
    for (name, value) in members {
        if value.is_null() {
            target.remove(&name)
        } else {
            target.insert(name, value)
        };
    }
    object
}
