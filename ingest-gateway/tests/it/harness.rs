//! A gateway with stores of its own, and a reader of what it puts on the log.

use ingest_gateway::{DrainSettings, Durability, Limits, Settings, State, routes};
use rdkafka::Message;
use rdkafka::consumer::{Consumer, StreamConsumer};
use schemas::log::LogRecord;
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::roles::Role;
use service_kit::sealing::SecretsSettings;
use service_kit::testing::{Seed, TestServer, TestStores, client};
use service_kit::{http, kafka};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Gateway {
    pub(crate) stores: TestStores,
    pub(crate) server: TestServer,
    client: reqwest::Client,
    _spill: TempDir,
}

/// A status and a body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        let stores = TestStores::with_topics().await;
        Self::start_on(stores, Durability::default()).await
    }

    /// A gateway with other rules about what a request may hold.
    pub(crate) async fn start_with(limits: Limits) -> Self {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { limits, ..usual }).await
    }

    /// A gateway with other limits of drains.
    pub(crate) async fn start_draining(drains: DrainSettings) -> Self {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { drains, ..usual }).await
    }

    /// A gateway that opens what is sealed by this key.
    pub(crate) async fn start_opening(secrets: SecretsSettings) -> Self {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { secrets, ..usual }).await
    }

    /// A gateway with other bounds, and a spill of its own unless they name one.
    pub(crate) async fn start_on(stores: TestStores, durability: Durability) -> Self {
        Self::start_as(stores, |usual| Settings { durability, ..usual }).await
    }

    async fn start_as(stores: TestStores, changed: impl FnOnce(Settings) -> Settings) -> Self {
        let spill = tempfile::tempdir().expect("a folder is made");
        let mut settings = changed(Settings::on(stores.kafka.clone(), stores.signed_in_as(Role::Gateway).postgres));
        settings.durability.spill_dir.get_or_insert_with(|| spill.path().to_owned());
        let state = State::connect(&settings, Clock::System).await.expect("the gateway connects");
        let server = TestServer::start(http::with_boundary(routes(state))).await;
        Self { stores, server, client: client(), _spill: spill }
    }

    /// A second gateway on the same stores.
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

    pub(crate) async fn post_to(&self, path: &str, key: &str, body: &Value) -> Answer {
        answer(self.request_to(path, Some(key)).body(body.to_string())).await
    }

    pub(crate) async fn post(&self, key: &str, body: &Value) -> Answer {
        self.post_text(Some(key), body.to_string()).await
    }

    pub(crate) async fn post_text(&self, key: Option<&str>, body: impl Into<reqwest::Body>) -> Answer {
        answer(self.request(key).body(body)).await
    }

    /// The first `count` records of the topic, in the order of their partitions.
    pub(crate) async fn records(&self, count: usize) -> Vec<LogRecord> {
        let texts = self.record_texts(count).await;
        texts.iter().map(|text| serde_json::from_str(text).expect("it is a record")).collect()
    }

    /// The same as the bytes they are.
    pub(crate) async fn record_texts(&self, count: usize) -> Vec<String> {
        let consumer = self.consumer();
        let mut records = Vec::new();
        while records.len() < count {
            let message = tokio::time::timeout(Duration::from_secs(60), consumer.recv())
                .await
                .expect("a record arrives")
                .expect("it is read");
            let value = message.payload().expect("a record has a value");
            records.push(String::from_utf8(value.to_vec()).expect("a record is text"));
        }
        records
    }

    /// How many records the topic holds.
    pub(crate) fn record_count(&self) -> i64 {
        let consumer = self.consumer();
        let partitions =
            consumer.fetch_metadata(Some(&self.stores.kafka.topic), Duration::from_secs(20)).expect("the broker answers");
        let ids: Vec<i32> = partitions.topics()[0].partitions().iter().map(rdkafka::metadata::MetadataPartition::id).collect();
        ids.into_iter()
            .map(|partition| {
                let (low, high) = watermarks(&consumer, &self.stores.kafka.topic, partition);
                high - low
            })
            .sum()
    }

    fn consumer(&self) -> StreamConsumer {
        let consumer: StreamConsumer = kafka::client(&self.stores.kafka)
            .expect("the settings are good")
            .set("group.id", &self.stores.name)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .create()
            .expect("a consumer is made");
        // Assigned, not subscribed: closing a consumer that is still joining its group can hang.
        let metadata =
            consumer.fetch_metadata(Some(&self.stores.kafka.topic), Duration::from_secs(60)).expect("the broker answers");
        let mut assignment = rdkafka::TopicPartitionList::new();
        for partition in metadata.topics()[0].partitions() {
            let added = assignment.add_partition_offset(&self.stores.kafka.topic, partition.id(), rdkafka::Offset::Beginning);
            added.expect("the beginning is a valid offset");
        }
        consumer.assign(&assignment).expect("the partitions are assigned");
        consumer
    }
}

/// A topic made a moment ago may not have its leader everywhere yet; that passes.
fn watermarks(consumer: &StreamConsumer, topic: &str, partition: i32) -> (i64, i64) {
    for _ in 0..40 {
        if let Ok(found) = consumer.fetch_watermarks(topic, partition, Duration::from_secs(20)) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    consumer.fetch_watermarks(topic, partition, Duration::from_secs(20)).expect("the broker answers")
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.expect("the gateway answers");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("the body arrives");
    Answer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

impl Answer {
    /// `code` of each fault, with its index and field.
    pub(crate) fn faults(&self) -> Vec<(Option<u64>, String, String)> {
        let faults = self.body["errors"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        faults.iter().map(|fault| (fault["index"].as_u64(), text(&fault["field"]), text(&fault["code"]))).collect()
    }
}

/// A retrieval as an edge sees it.
pub(crate) fn retrieval(url: &str) -> Value {
    json!({"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "edge", "content_url": url})
}

/// `object` with members replaced or, by null, removed.
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
