//! A test's topics: writes raw records, reads dead letters, and checks what is stored.

use super::eventually;
use crate::databases;
use crate::kafka;
use crate::settings::{ClickHouseSettings, KafkaSettings};
use rdkafka::admin::AdminOptions;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage, ToBytes};
use rdkafka::metadata::MetadataPartition;
use rdkafka::producer::future_producer::Delivery;
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use schemas::log::{LogEvent, LogRecord, header};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

const BROKER_PATIENCE: Duration = Duration::from_secs(30);
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub struct TestLog {
    settings: KafkaSettings,
    /// Created for the first record.
    producer: OnceLock<FutureProducer>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadLetter {
    /// `topic/partition/offset` of the original.
    pub origin: String,
    pub payload: Vec<u8>,
    pub reason: String,
}

impl TestLog {
    pub fn connect(settings: &KafkaSettings) -> Self {
        Self { settings: settings.clone(), producer: OnceLock::new() }
    }

    /// Writes one record to a partition and returns its origin, `topic/partition/offset`.
    pub async fn put(&self, partition: i32, payload: &[u8]) -> String {
        self.put_all([(partition, payload)]).await.remove(0)
    }

    /// Writes one record to a partition, with the header that names its reports' buckets.
    pub async fn put_with_buckets(&self, partition: i32, payload: &[u8], buckets: Option<&str>) {
        let header = buckets.map(|buckets| Header { key: header::BUCKETS, value: Some(buckets) });
        let headers = header.into_iter().fold(OwnedHeaders::new(), OwnedHeaders::insert);
        let record = FutureRecord::<(), [u8]>::to(&self.settings.topic).partition(partition).payload(payload).headers(headers);
        acknowledged(self.send(record)).await;
    }

    pub async fn put_all<'a>(&self, records: impl IntoIterator<Item = (i32, &'a [u8])>) -> Vec<String> {
        let topic = &self.settings.topic;
        let record = |(partition, payload)| FutureRecord::<(), [u8]>::to(topic).partition(partition).payload(payload);
        let sent: Vec<DeliveryFuture> = records.into_iter().map(|one| self.send(record(one))).collect();
        let mut origins = Vec::new();
        for sent in sent {
            let place = acknowledged(sent).await;
            origins.push(format!("{topic}/{}/{}", place.partition, place.offset));
        }
        origins
    }

    /// Writes a dead letter as a worker does, for a record that a worker wouldn't reject.
    pub async fn put_dead_letter(&self, origin: &str, reason: &str, payload: &[u8]) {
        let headers = OwnedHeaders::new()
            .insert(Header { key: header::ORIGIN, value: Some(origin) })
            .insert(Header { key: header::REASON, value: Some(reason) });
        let record = FutureRecord::<str, [u8]>::to(&self.settings.rejected_topic).key(origin).payload(payload).headers(headers);
        acknowledged(self.send(record)).await;
    }

    fn send<K: ToBytes + ?Sized>(&self, record: FutureRecord<'_, K, [u8]>) -> DeliveryFuture {
        let producer = self.producer.get_or_init(|| kafka::producer(&self.settings).expect("a producer is created"));
        producer.send_result(record).map_err(|(error, _)| error).expect("the queue has room")
    }

    /// Returns the number of records in the topic that are not stored yet, according to the `progress` table.
    pub async fn not_stored(&self, clickhouse: &ClickHouseSettings) -> i64 {
        let settings = self.settings.clone();
        let ends = blocking(move || offsets(&observer(&settings, "observer"), &settings.topic)).await;
        let stored: Vec<(i32, i64)> = databases::clickhouse(clickhouse)
            .expect("CLICKHOUSE_URL is a URL")
            .query("SELECT partition, offset FROM (SELECT partitions, next FROM progress WHERE topic = ? ORDER BY beat DESC LIMIT 1) \
                 ARRAY JOIN partitions AS partition, next AS offset")
            .bind(&self.settings.topic)
            .fetch_all()
            .await
            .unwrap_or_default();
        let next: BTreeMap<i32, i64> = stored.into_iter().collect();
        ends.iter().map(|(partition, (_, end))| end - next.get(partition).copied().unwrap_or(0)).sum()
    }

    pub async fn caught_up(&self, clickhouse: &ClickHouseSettings) {
        eventually("every record is stored", || async { (self.not_stored(clickhouse).await == 0).then_some(()) }).await;
    }

    /// Deletes the first records of partitions, as the log's retention does.
    pub async fn drop_before(&self, firsts: impl IntoIterator<Item = (i32, Offset)>) {
        let mut gone = TopicPartitionList::new();
        for (partition, first) in firsts {
            gone.add_partition_offset(&self.settings.topic, partition, first).expect("the offset is valid");
        }
        let admin = kafka::admin(&self.settings).expect("a client is created");
        admin.delete_records(&gone, &AdminOptions::new()).await.expect("the broker deletes them");
    }

    pub async fn delete_group(&self, group: &str) {
        let admin = kafka::admin(&self.settings).expect("a client is created");
        let deleted = async || {
            let answer = admin.delete_groups(&[group], &AdminOptions::new()).await.ok()?;
            answer.iter().all(Result::is_ok).then_some(())
        };
        eventually(&format!("the group {group} is deleted"), deleted).await;
    }

    pub async fn dead_letters(&self) -> Vec<DeadLetter> {
        let settings = self.settings.clone();
        let read = blocking(move || read_to_end(&settings, &settings.rejected_topic)).await;
        let mut found: Vec<DeadLetter> = read.iter().map(dead_letter).collect();
        found.sort();
        found
    }

    pub async fn all_records(&self) -> Vec<LogRecord> {
        parsed(&self.all_texts().await)
    }

    pub async fn all_events(&self) -> Vec<LogEvent> {
        self.all_records().await.into_iter().flat_map(|record| record.events).collect()
    }

    /// Returns the first `count` records of the topic, ordered by partition.
    pub async fn records(&self, count: usize) -> Vec<LogRecord> {
        parsed(&self.record_texts(count).await)
    }

    /// Like [`Self::records`], but returns JSON.
    pub async fn record_texts(&self, count: usize) -> Vec<String> {
        let read = async || Some(self.all_texts().await).filter(|texts| texts.len() >= count);
        let mut texts = eventually("the records arrive", read).await;
        texts.truncate(count);
        texts
    }

    pub async fn all_texts(&self) -> Vec<String> {
        let settings = self.settings.clone();
        let read = blocking(move || read_to_end(&settings, &settings.topic)).await;
        let text = |message: &OwnedMessage| String::from_utf8(message.payload().unwrap_or_default().to_vec());
        read.iter().map(|message| text(message).expect("a record is text")).collect()
    }

    /// Returns the number of records in the topic. Blocks.
    pub fn record_count(&self) -> i64 {
        let offsets = offsets(&observer(&self.settings, "observer"), &self.settings.topic);
        offsets.iter().map(|(_, (low, high))| high - low).sum()
    }
}

fn parsed(texts: &[String]) -> Vec<LogRecord> {
    texts.iter().map(|text| serde_json::from_str(text).expect("it is a record")).collect()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("the work does not panic")
}

async fn acknowledged(sent: DeliveryFuture) -> Delivery {
    sent.await.expect("the producer still exists").map_err(|(error, _)| error).expect("the broker acknowledges")
}

/// Reads a topic to its end, ordered by partition and offset. Blocks.
fn read_to_end(settings: &KafkaSettings, topic: &str) -> Vec<OwnedMessage> {
    let consumer = observer(settings, "observer");
    // Assign partitions instead of subscribing, because closing a consumer that is still joining its group can hang.
    let (mut assigned, mut count) = (TopicPartitionList::new(), 0);
    for (partition, (low, high)) in offsets(&consumer, topic) {
        count += high - low;
        assigned.add_partition_offset(topic, partition, Offset::Beginning).expect("the offset is valid");
    }
    consumer.assign(&assigned).expect("partitions are assigned");
    let read = |_| consumer.poll(BROKER_PATIENCE).expect("a record arrives").expect("it is read").detach();
    let mut found: Vec<OwnedMessage> = (0..count).map(read).collect();
    found.sort_by_key(|message| (message.partition(), message.offset()));
    found
}

fn dead_letter(message: &OwnedMessage) -> DeadLetter {
    let text = |name: &str| {
        let header = message.headers()?.iter().find(|header| header.key == name)?;
        Some(String::from_utf8_lossy(header.value?).into_owned())
    };
    DeadLetter {
        origin: text(header::ORIGIN).expect("a dead letter has an origin"),
        reason: text(header::REASON).expect("a dead letter has a reason"),
        payload: message.payload().unwrap_or_default().to_vec(),
    }
}

fn observer(settings: &KafkaSettings, group: &str) -> BaseConsumer {
    kafka::client(settings).expect("the settings are good").set("group.id", group).create().expect("a consumer is created")
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> Vec<i32> {
    let metadata = patiently("the broker", || consumer.fetch_metadata(Some(topic), BROKER_PATIENCE));
    let mut partitions: Vec<i32> = metadata.topics()[0].partitions().iter().map(MetadataPartition::id).collect();
    partitions.sort_unstable();
    partitions
}

/// Returns each partition's first and next offset.
fn offsets(consumer: &BaseConsumer, topic: &str) -> Vec<(i32, (i64, i64))> {
    let offsets = |partition| patiently("the leader", || consumer.fetch_watermarks(topic, partition, BROKER_PATIENCE));
    partitions(consumer, topic).into_iter().map(|partition| (partition, offsets(partition))).collect()
}

/// Retries while the broker doesn't know a new topic or group yet.
fn patiently<T>(whom: &str, ask: impl Fn() -> KafkaResult<T>) -> T {
    for _ in 0..TRIES {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => tracing::debug!("{whom} is not ready yet: {error}"),
        }
        std::thread::sleep(PAUSE);
    }
    ask().unwrap_or_else(|error| panic!("{whom} is unavailable: {error}"))
}
