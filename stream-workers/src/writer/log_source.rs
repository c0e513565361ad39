//! Reads the log from the offsets in `progress`. Partitions are assigned manually, because ClickHouse determines which writer is
//! active, not Kafka.

use super::batch::Records;
use super::interrupted_rows::InterruptedRows;
use super::poison_records::{Advice, BlockLimits};
use super::progress::NextOffsets;
use super::state::State;
use super::statements::{Server, WriterExit};
use crate::Settings;
use crate::consume::{Block, Lag, Origin, QUARANTINED, Unresolved, named_buckets};
use crate::dead_letters::KnownDeadLetters;
use crate::record::new_report::NewReport;
use anyhow::Context as _;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Message as _, OwnedMessage};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};
use schemas::log::LogEvent;
use schemas::report_keys::ReportKeys;
use schemas::shard::{Shard, ShardTask};
use service_kit::kafka;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
const METADATA_EVERY: Duration = Duration::from_secs(30);
/// Pause after a consumer error. Most errors are temporary.
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// Each partition's start and end; `None` if it currently has no leader.
type Listing = BTreeMap<i32, Option<(i64, i64)>>;

/// Result of listing the log's partitions.
#[derive(Clone, Default)]
struct Listed {
    /// How far the log had been read when the listing started.
    read: NextOffsets,
    partitions: Listing,
}

/// Reads the log's partitions.
pub(super) struct LogSource {
    consumer: Arc<StreamConsumer>,
    topic: String,
    block_age: Duration,
    block: Block,
    records: Records,
    next: NextOffsets,
    /// End of a failed block. The records before it have already waited for a block.
    failed: NextOffsets,
    assigned: BTreeSet<i32>,
    listed: watch::Receiver<Listed>,
    /// `next` when the last block ended. A listing that starts later can't return a smaller end offset.
    read: Arc<Mutex<NextOffsets>>,
    _listing: AbortOnDropHandle<()>,
    lag: Arc<Lag>,
    received: Option<OwnedMessage>,
    /// Records that were rejected when the log was read before.
    known: KnownDeadLetters,
}

impl LogSource {
    pub(super) fn connect(settings: &Settings, next: NextOffsets, known: KnownDeadLetters) -> anyhow::Result<Self> {
        let consumer: StreamConsumer = kafka::client(&settings.kafka)?
            // Consumers don't join this group. Offsets are committed to it for tools that show lag.
            .set("group.id", settings.tuning.group_of_shard())
            .set("enable.auto.commit", "false")
            // Applies to partitions without progress, and if retention has dropped the next record.
            .set("auto.offset.reset", "earliest")
            .set("queued.max.messages.kbytes", "65536")
            .create()
            .with_context(|| format!("KAFKA_BROKERS={}: failed to create a consumer", settings.kafka.kafka_brokers))?;
        let (consumer, (sender, listed)) = (Arc::new(consumer), watch::channel(Listed::default()));
        let read = Arc::<Mutex<NextOffsets>>::default();
        let listing =
            tokio::spawn(keep_listing(Arc::clone(&consumer), settings.kafka.topic.clone(), (Arc::clone(&read), sender)));
        Ok(Self {
            consumer,
            topic: settings.kafka.topic.clone(),
            block_age: settings.tuning.block_age(),
            block: Block::default(),
            records: Records::default(),
            next,
            failed: NextOffsets::new(),
            assigned: BTreeSet::new(),
            listed,
            read,
            _listing: AbortOnDropHandle::new(listing),
            lag: Arc::default(),
            received: None,
            known,
        })
    }

    /// Discards the collected records, and reads again from these offsets.
    pub(super) fn restart(&mut self, settings: &Settings, next: NextOffsets) -> anyhow::Result<()> {
        // Use another consumer, because the current one may have fetched records after these offsets.
        let lag = Arc::clone(&self.lag);
        let failed = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *self = Self { lag, failed, ..Self::connect(settings, next, self.known.clone())? };
        Ok(())
    }

    /// Returns the next block with its records, once it is full or old enough and reaches as far as `state.cover` requires.
    /// Safe to cancel and call again: it keeps the collected records.
    pub(super) async fn block(
        &mut self,
        state: &mut State,
        (narrowing, server): (&BlockLimits, &Server),
    ) -> Result<(Block, Records), WriterExit> {
        loop {
            if self.is_created_again() && self.end_of_former_log(state) {
                return self.end(state, server).await;
            }
            self.push(state, narrowing, server).await?;
            if self.take_listing(state) {
                return self.end(state, server).await;
            }
            let may_end = state.interrupted_rows.may_end(&self.next);
            let is_full = self.has_waited(state) || self.block.is_full() || self.records.all.len() >= narrowing.most_records();
            let age = self.block.opened.map(|opened| opened.elapsed());
            if may_end && (age.is_some() && is_full || age.is_some_and(|age| age >= self.block_age)) {
                return self.end(state, server).await;
            }
            let wait = if may_end { self.block_age.saturating_sub(age.unwrap_or_default()) } else { self.block_age };
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

    /// Returns whether all records of a failed or interrupted block have been read again. They have already waited for a block.
    fn has_waited(&self, state: &State) -> bool {
        let is_read = |(partition, end): (&i32, &i64)| self.next.get(partition).is_some_and(|next| next >= end);
        let is_covered = !state.interrupted_rows.is_empty() && state.interrupted_rows.is_complete(&self.next);
        is_covered || (!self.failed.is_empty() && self.failed.iter().all(is_read))
    }

    async fn end(&mut self, state: &mut State, server: &Server) -> Result<(Block, Records), WriterExit> {
        state.forget_suspect(server, &self.topic).await?;
        self.lag.start_storing();
        self.failed.clear();
        self.read.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.next);
        Ok((std::mem::take(&mut self.block), std::mem::take(&mut self.records)))
    }

    /// Returns whether the received record has an offset that was read before: its partition was recreated, and the consumer has started at
    /// its beginning.
    fn is_created_again(&self) -> bool {
        let of = |message: &OwnedMessage| self.next.get(&message.partition()).is_some_and(|next| message.offset() < *next);
        self.received.as_ref().is_some_and(of)
    }

    /// Continues with a partition's new log. Returns whether the block must end first, because it contains records of the former log.
    fn end_of_former_log(&mut self, state: &mut State) -> bool {
        let Some(partition) = self.received.as_ref().map(OwnedMessage::partition) else { return false };
        if self.block.offsets.contains_key(&partition) {
            state.interrupted_rows.give_up(partition);
            return true;
        }
        let next = self.begin_again(partition, state);
        tracing::error!(partition, next, "the log was recreated; reading the partition from its beginning");
        false
    }

    /// Forgets how far a partition has been read, and returns it.
    fn begin_again(&mut self, partition: i32, state: &mut State) -> Option<i64> {
        state.interrupted_rows.give_up(partition);
        self.read.lock().unwrap_or_else(PoisonError::into_inner).remove(&partition);
        self.next.remove(&partition)
    }

    async fn push(&mut self, state: &mut State, narrowing: &BlockLimits, server: &Server) -> Result<(), WriterExit> {
        let Some(message) = &self.received else { return Ok(()) };
        let (partition, offset) = (message.partition(), message.offset());
        self.lag.add_record(message.timestamp());
        let (reports, unresolved) = (self.block.reports.len(), self.block.unresolved.len());
        let advice = self.advice(message, server.shard()).unwrap_or_else(|| state.caution.advise(partition, offset));
        match (narrowing.reason((partition, offset)), advice) {
            (_, Advice::Skip) => self.block.skip(message),
            (Some(reason), _) => self.block.push_unread(message, format!("{QUARANTINED}: {reason}")),
            (None, Advice::Decode) => {
                state.forget_suspect(server, &self.topic).await?;
                self.block.push(message, |_| true);
            }
            (None, Advice::Note(suspect)) => {
                state.note(suspect, server, &self.topic).await?;
                self.block.push(message, |_| true);
                state.progress.suspect = None;
            }
            (None, Advice::Reject) => {
                let reason = format!("{QUARANTINED}: writers died while they decoded it");
                self.block.push_unread(message, reason);
            }
        }
        if !state.interrupted_rows.is_empty() {
            let (reports, unresolved) = (&self.block.reports[reports..], &self.block.unresolved[unresolved..]);
            cover_groups(&mut state.interrupted_rows, (partition, offset), (reports, unresolved));
        }
        self.pushed((partition, offset));
        Ok(())
    }

    /// Adds the last received record to the records of the block.
    fn pushed(&mut self, record: Origin) {
        self.records.all.push(record);
        self.records.of_failed_fetches.resize(self.block.failed_fetches.len(), record);
        self.next.insert(record.0, record.1 + 1);
        self.received = None;
    }

    /// Returns what to do with a record because of its headers or position; `None` if it is decoded.
    fn advice(&self, message: &OwnedMessage, shard: Shard) -> Option<Advice> {
        if !shard.is_only() && shard.duty(&named_buckets(message.headers())) == ShardTask::Skip {
            return Some(Advice::Skip);
        }
        self.known.is_quarantined(message.partition(), message.offset()).then_some(Advice::Reject)
    }

    /// Decodes records of the next block while the last one is being stored. Never returns.
    ///
    /// Requires [`State::can_decode_ahead`]. Stops at a record that needs more than decoding.
    pub(super) async fn read_ahead(&mut self, narrowing: &BlockLimits, shard: Shard) -> Infallible {
        loop {
            self.decode_received(narrowing, shard);
            let is_full = self.block.is_full() || self.records.all.len() >= narrowing.most_records();
            if self.received.is_some() || is_full {
                return self.keep_watching().await;
            }
            match self.consumer.recv().await {
                Ok(message) => self.received = Some(message.detach()),
                Err(_) => tokio::time::sleep(ERROR_PAUSE).await,
            }
            // Records that are already in memory must not delay the last block.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Restarts the next block's age. Otherwise, records that arrived while the last block was being stored would make blocks smaller, and
    /// replays would never run.
    pub(super) fn begin_waiting(&mut self) {
        self.block.opened = self.block.opened.map(|_| Instant::now());
    }

    /// Decodes the last received record, if [`Self::block`] would only decode it.
    fn decode_received(&mut self, narrowing: &BlockLimits, shard: Shard) {
        let Some(message) = &self.received else { return };
        let record = (message.partition(), message.offset());
        self.lag.add_record(message.timestamp());
        if self.is_created_again() || narrowing.reason(record).is_some() {
            return;
        }
        match self.advice(message, shard) {
            Some(Advice::Skip) => self.block.skip(message),
            None => self.block.push(message, |_| true),
            Some(_) => return,
        }
        self.pushed(record);
    }

    /// Receives a record while waiting for something else, so that its age counts as lag.
    pub(super) async fn keep_watching(&mut self) -> Infallible {
        while self.received.is_none() {
            match self.consumer.recv().await {
                Ok(message) => {
                    self.lag.add_record(message.timestamp());
                    self.received = Some(message.detach());
                }
                Err(_) => tokio::time::sleep(ERROR_PAUSE).await,
            }
        }
        std::future::pending().await
    }

    /// Returns the age of the oldest record that was read but not stored.
    pub(super) fn lag(&self) -> Arc<Lag> {
        Arc::clone(&self.lag)
    }

    /// Commits offsets for tools that show lag; the store doesn't depend on them.
    pub(super) fn commit(&self, next: &NextOffsets) {
        self.lag.finish_storing();
        let mut list = TopicPartitionList::new();
        for (partition, next) in next {
            // Fails only if the list contains a partition twice.
            let _ = list.add_partition_offset(&self.topic, *partition, Offset::Offset(*next));
        }
        if let Err(error) = self.consumer.commit(&list, CommitMode::Async) {
            tracing::debug!("failed to commit offsets for lag tools: {error}");
        }
    }

    /// Assigns the partitions of the last listing, if they have changed. Returns whether the block must end first, because it contains
    /// records from a log that was recreated.
    fn take_listing(&mut self, state: &mut State) -> bool {
        if !self.listed.has_changed().unwrap_or(false) {
            return false;
        }
        let Listed { read, partitions } = self.listed.borrow().clone();
        let found = partitions.iter().filter_map(|(partition, range)| Some((*partition, (*range)?.1)));
        let found: NextOffsets = found.collect();
        let is_new = |partition: &i32| !self.assigned.contains(partition);
        let known = |partition: &i32| if is_new(partition) { self.next.get(partition) } else { read.get(partition) };
        let ends_before = |(partition, end): &(&i32, &i64)| known(partition).is_some_and(|next| next > *end);
        let again: Vec<i32> = found.iter().filter(ends_before).map(|(partition, _)| *partition).collect();
        let has_new = found.keys().any(is_new);
        if again.iter().any(|partition| self.block.offsets.contains_key(partition)) {
            again.iter().for_each(|partition| state.interrupted_rows.give_up(*partition));
            return true;
        }
        self.listed.mark_unchanged();
        state
            .interrupted_rows
            .clamp(&partitions.iter().map(|(partition, range)| (*partition, range.map(|(begin, _)| begin))).collect());
        for partition in &again {
            let next = self.begin_again(*partition, state);
            tracing::error!(
                partition,
                next,
                "the log ends before the store's progress; reading the partition from its beginning"
            );
        }
        if !again.is_empty() || has_new {
            self.assigned.extend(found.keys());
            self.assign();
        }
        false
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

/// Extends the block to the interrupted reports that share a group with a record.
fn cover_groups(cover: &mut InterruptedRows, record: Origin, (reports, unresolved): (&[NewReport], &[Unresolved])) {
    // An event's keys depend on its host, which is unknown until its click token is looked up.
    if unresolved.iter().any(|one| one.record.events.iter().any(LogEvent::is_unresolved)) {
        cover.read_unknown();
    }
    let unresolved = unresolved.iter().flat_map(|Unresolved { record, .. }| {
        record.events.iter().map(|event| ReportKeys::new(record.org, record.drain, event).event())
    });
    cover.read(record, reports.iter().map(|new| new.report.group()).chain(unresolved));
}

/// Lists the partitions and their ends repeatedly, in a separate task because brokers may be slow to respond.
async fn keep_listing(
    consumer: Arc<StreamConsumer>,
    topic: String,
    (read, listed): (Arc<Mutex<NextOffsets>>, watch::Sender<Listed>),
) {
    loop {
        let read = read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (consumer, topic) = (Arc::clone(&consumer), topic.clone());
        let pause = match tokio::task::spawn_blocking(move || list(&consumer, &topic)).await {
            Ok(Ok(partitions)) => {
                listed.send_replace(Listed { read, partitions });
                METADATA_EVERY
            }
            Ok(Err(error)) => {
                tracing::warn!("failed to list the log's partitions: {error}");
                ERROR_PAUSE
            }
            Err(_) => ERROR_PAUSE,
        };
        tokio::time::sleep(pause).await;
    }
}

/// Returns the partitions, with start and end of those that have a leader.
fn list(consumer: &StreamConsumer, topic: &str) -> Result<Listing, KafkaError> {
    let metadata = consumer.fetch_metadata(Some(topic), METADATA_TIMEOUT)?;
    let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions).map(MetadataPartition::id);
    let range = |partition| match consumer.fetch_watermarks(topic, partition, METADATA_TIMEOUT) {
        Ok(range) => (partition, Some(range)),
        Err(error) => {
            tracing::warn!(partition, "failed to read a partition's offsets: {error}");
            (partition, None)
        }
    };
    Ok(partitions.map(range).collect())
}
