//! Reads the log from the offsets in `progress`. Partitions are assigned manually, because ClickHouse decides who is active, not Kafka.

use super::caution::Advice;
use super::progress::NextOffsets;
use super::server::{Ended, Server};
use super::state::State;
use crate::Settings;
use crate::consume::{Block, Lag, QUARANTINED};
use anyhow::Context as _;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Message as _, OwnedMessage};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};
use service_kit::kafka;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Longest wait for the brokers to list the partitions.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
/// How often new partitions are looked for.
const METADATA_EVERY: Duration = Duration::from_secs(30);
/// Pause after an error of the consumer; most pass by themselves.
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// The partitions of the log.
pub(super) struct Source {
    consumer: Arc<StreamConsumer>,
    topic: String,
    block_age: Duration,
    block: Block,
    /// Offset of the next record to read, by partition.
    next: NextOffsets,
    assigned: BTreeSet<i32>,
    ends: watch::Receiver<NextOffsets>,
    _listing: AbortOnDropHandle<()>,
    lag: Arc<Lag>,
    /// Received, and not decoded yet.
    received: Option<OwnedMessage>,
}

impl Source {
    pub(super) fn connect(settings: &Settings, next: NextOffsets) -> anyhow::Result<Self> {
        let consumer: StreamConsumer = kafka::client(&settings.kafka)?
            // Nobody joins this group. Offsets are committed to it for tools that show lag.
            .set("group.id", format!("{}-writer", settings.tuning.group))
            .set("enable.auto.commit", "false")
            // Of a partition without progress, and if retention has dropped the next record.
            .set("auto.offset.reset", "earliest")
            .set("queued.max.messages.kbytes", "65536")
            .create()
            .with_context(|| format!("KAFKA_BROKERS={}: cannot create a consumer", settings.kafka.kafka_brokers))?;
        let (consumer, (sender, ends)) = (Arc::new(consumer), watch::channel(NextOffsets::new()));
        let listing = tokio::spawn(keep_listing(Arc::clone(&consumer), settings.kafka.topic.clone(), sender));
        Ok(Self {
            consumer,
            topic: settings.kafka.topic.clone(),
            block_age: settings.tuning.block_age(),
            block: Block::default(),
            next,
            assigned: BTreeSet::new(),
            ends,
            _listing: AbortOnDropHandle::new(listing),
            lag: Arc::default(),
            received: None,
        })
    }

    /// Returns the next block: full or old enough, and at least up to `state.cover`. Safe to drop and call again: what it
    /// has collected stays.
    pub(super) async fn block(&mut self, state: &mut State, server: &Server) -> Result<Block, Ended> {
        loop {
            self.push(state, server).await?;
            self.assign_new_partitions(state);
            let is_covered =
                state.cover.iter().all(|(partition, next)| self.next.get(partition).is_some_and(|read| read >= next));
            let age = self.block.opened.map(|opened| opened.elapsed());
            if is_covered && (self.block.is_full() || age.is_some_and(|age| age >= self.block_age)) {
                state.forget_suspect(server, &self.topic).await?;
                self.lag.take();
                return Ok(std::mem::take(&mut self.block));
            }
            let wait = if is_covered { self.block_age.saturating_sub(age.unwrap_or_default()) } else { self.block_age };
            if let Ok(received) = tokio::time::timeout(wait, self.consumer.recv()).await {
                match received {
                    Ok(message) => self.received = Some(message.detach()),
                    Err(error) => {
                        tracing::warn!("failed to read the log: {error}");
                        tokio::time::sleep(ERROR_PAUSE).await;
                    }
                }
            }
        }
    }

    /// Decodes the record that was received last.
    async fn push(&mut self, state: &mut State, server: &Server) -> Result<(), Ended> {
        let Some(message) = &self.received else { return Ok(()) };
        let (partition, offset) = (message.partition(), message.offset());
        // One that is delivered again after partitions were assigned anew is in the block already.
        if self.next.get(&partition).is_none_or(|next| offset >= *next) {
            self.lag.read(message.timestamp());
            match state.caution.advise(partition, offset) {
                Advice::Decode => {
                    state.forget_suspect(server, &self.topic).await?;
                    self.block.push(message, |_| true);
                }
                Advice::Note(suspect) => {
                    state.note(suspect, server, &self.topic).await?;
                    self.block.push(message, |_| true);
                    state.progress.suspect = None;
                }
                Advice::SetAside => {
                    let reason = format!("{QUARANTINED}: writers died while they decoded it");
                    self.block.push_unread(message, reason);
                }
            }
            self.next.insert(partition, offset + 1);
        }
        self.received = None;
        Ok(())
    }

    /// Age of the oldest record that was read and isn't in the store.
    pub(super) fn lag(&self) -> Arc<Lag> {
        Arc::clone(&self.lag)
    }

    /// Commits offsets for tools that show lag; the store doesn't depend on them.
    pub(super) fn commit(&self, next: &NextOffsets) {
        self.lag.done();
        let mut list = TopicPartitionList::new();
        for (partition, next) in next {
            // Fails only for partitions that the list has twice.
            let _ = list.add_partition_offset(&self.topic, *partition, Offset::Offset(*next));
        }
        if let Err(error) = self.consumer.commit(&list, CommitMode::Async) {
            tracing::debug!("failed to commit offsets for lag tools: {error}");
        }
    }

    /// Assigns what the last listing of the log has found, if that has changed.
    fn assign_new_partitions(&mut self, state: &mut State) {
        if !self.ends.has_changed().unwrap_or(false) {
            return;
        }
        let ends = self.ends.borrow_and_update().clone();
        if ends.keys().any(|partition| !self.assigned.contains(partition)) {
            self.forget_beyond(&ends, state);
            self.assigned.extend(ends.keys());
            self.assign();
        }
    }

    /// Reads partitions from their beginning that end before the store's progress: the topic was deleted and created again.
    fn forget_beyond(&mut self, ends: &NextOffsets, state: &mut State) {
        let is_beyond = |partition: &i32, next: &i64| ends.get(partition).is_some_and(|end| next > end);
        for (partition, next) in self.next.extract_if(.., |partition, next| is_beyond(partition, next)) {
            tracing::error!(
                partition,
                next,
                "the log ends before the store's progress; reading the partition from its beginning"
            );
        }
        state.cover.retain(|partition, next| !is_beyond(partition, next));
    }

    fn assign(&self) {
        let mut list = TopicPartitionList::new();
        for partition in &self.assigned {
            let next = self.next.get(partition).map_or(Offset::Beginning, |next| Offset::Offset(*next));
            let _ = list.add_partition_offset(&self.topic, *partition, next);
        }
        if let Err(error) = self.consumer.assign(&list) {
            tracing::error!("failed to assign the partitions of {}: {error}", self.topic);
        }
    }
}

/// Lists the partitions and their ends, again and again. Beside reading, because brokers may take long to respond.
async fn keep_listing(consumer: Arc<StreamConsumer>, topic: String, ends: watch::Sender<NextOffsets>) {
    loop {
        let (consumer, topic) = (Arc::clone(&consumer), topic.clone());
        let pause = match tokio::task::spawn_blocking(move || list(&consumer, &topic)).await {
            Ok(Ok(found)) => {
                ends.send_replace(found);
                METADATA_EVERY
            }
            Ok(Err(error)) => {
                tracing::warn!("failed to list the partitions of the log: {error}");
                ERROR_PAUSE
            }
            Err(_) => ERROR_PAUSE,
        };
        tokio::time::sleep(pause).await;
    }
}

/// The end of each partition that has a leader.
fn list(consumer: &StreamConsumer, topic: &str) -> Result<NextOffsets, KafkaError> {
    let metadata = consumer.fetch_metadata(Some(topic), METADATA_TIMEOUT)?;
    let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions).map(MetadataPartition::id);
    let end = |partition| match consumer.fetch_watermarks(topic, partition, METADATA_TIMEOUT) {
        Ok((_, end)) => Some((partition, end)),
        Err(error) => {
            tracing::warn!(partition, "failed to ask where a partition ends: {error}");
            None
        }
    };
    Ok(partitions.filter_map(end).collect())
}
