//! Reads ranges of a topic's partitions without a consumer group.

use anyhow::Context;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a request to the brokers.
const ASK_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a consumer error. Most errors are temporary.
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// A range of offsets in a partition; `to` is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetRange {
    pub(crate) partition: i32,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl OffsetRange {
    /// Returns the number of offsets. A few may have no record.
    pub(crate) fn len(&self) -> u64 {
        u64::try_from(self.to - self.from).unwrap_or(0)
    }
}

pub(crate) struct TopicReader {
    consumer: Arc<StreamConsumer>,
    brokers: String,
    topic: String,
    /// Where to stop, for each partition that isn't completely read.
    missing: BTreeMap<i32, i64>,
}

impl TopicReader {
    pub(crate) fn open(settings: &KafkaSettings, topic: &str) -> anyhow::Result<Self> {
        let brokers = settings.kafka_brokers.clone();
        let consumer: StreamConsumer = kafka::client(settings)?
            // The client library requires a name, but no consumer joins the group.
            .set("group.id", "stream-workers-by-hand")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error")
            .set("fetch.wait.max.ms", "100")
            .set("queued.max.messages.kbytes", "65536")
            .create()
            .with_context(|| format!("KAFKA_BROKERS={brokers}: failed to create a consumer"))?;
        Ok(Self { consumer: Arc::new(consumer), brokers, topic: topic.to_owned(), missing: BTreeMap::new() })
    }

    /// Returns the range of each partition currently on the topic.
    pub(crate) async fn whole(&self) -> anyhow::Result<Vec<OffsetRange>> {
        self.request(|consumer, topic| {
            let metadata = consumer.fetch_metadata(Some(topic), ASK_DEADLINE)?;
            let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions).map(MetadataPartition::id);
            let bounds = |partition| {
                let (from, to) = consumer.fetch_watermarks(topic, partition, ASK_DEADLINE)?;
                Ok(OffsetRange { partition, from, to })
            };
            partitions.map(bounds).collect()
        })
        .await
    }

    /// Returns the offset of the first record at or after a time, by partition. Omits partitions whose records are all older.
    pub(crate) async fn offsets_at(&self, partitions: Vec<i32>, at_ms: i64) -> anyhow::Result<BTreeMap<i32, i64>> {
        self.request(move |consumer, topic| {
            let mut asked = TopicPartitionList::new();
            for partition in &partitions {
                asked.add_partition_offset(topic, *partition, Offset::Offset(at_ms))?;
            }
            let found = consumer.offsets_for_times(asked, ASK_DEADLINE)?;
            let found = found.elements().into_iter().filter_map(|at| match at.offset() {
                Offset::Offset(offset) => Some((at.partition(), offset)),
                _ => None,
            });
            Ok(found.collect())
        })
        .await
    }

    async fn request<T: Send + 'static>(
        &self,
        question: impl FnOnce(&StreamConsumer, &str) -> KafkaResult<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let (consumer, topic) = (Arc::clone(&self.consumer), self.topic.clone());
        let answer = tokio::task::spawn_blocking(move || question(&consumer, &topic)).await?;
        answer.with_context(|| {
            format!(
                "KAFKA_BROKERS={}: failed to read the topic {}; start a broker or correct the address",
                self.brokers, self.topic
            )
        })
    }

    pub(crate) fn assign(&mut self, parts: &[OffsetRange]) -> anyhow::Result<()> {
        let mut list = TopicPartitionList::new();
        self.missing.clear();
        for part in parts.iter().filter(|part| part.from < part.to) {
            list.add_partition_offset(&self.topic, part.partition, Offset::Offset(part.from))?;
            self.missing.insert(part.partition, part.to);
        }
        Ok(self.consumer.assign(&list)?)
    }

    /// Returns the next record of any range; `None` once all are read.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<BorrowedMessage<'_>>> {
        while !self.missing.is_empty() {
            match self.consumer.recv().await {
                Ok(message) => {
                    let (partition, offset) = (message.partition(), message.offset());
                    let Some(to) = self.missing.get(&partition).copied() else { continue };
                    if offset + 1 >= to {
                        finish(&self.consumer, &self.topic, &mut self.missing, partition);
                    }
                    if offset < to {
                        return Ok(Some(message));
                    }
                }
                // The remaining offsets of the range have no records.
                Err(KafkaError::PartitionEOF(partition)) => finish(&self.consumer, &self.topic, &mut self.missing, partition),
                Err(KafkaError::NoMessageReceived) => {}
                Err(error) if is_gone(&error) => {
                    anyhow::bail!("records in topic {} expired while it was being read: {error}", self.topic)
                }
                Err(error) => {
                    tracing::warn!("failed to read {}, retrying: {error}", self.topic);
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
        Ok(None)
    }
}

fn finish(consumer: &StreamConsumer, topic: &str, missing: &mut BTreeMap<i32, i64>, partition: i32) {
    missing.remove(&partition);
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    let _ = consumer.pause(&list);
}

/// Returns whether the log no longer has an offset to read.
fn is_gone(error: &KafkaError) -> bool {
    use rdkafka::error::RDKafkaErrorCode::{AutoOffsetReset, OffsetOutOfRange};
    matches!(error, KafkaError::MessageConsumption(AutoOffsetReset | OffsetOutOfRange))
}
