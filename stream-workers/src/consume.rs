//! 4 CONSUME: records become blocks, while the group keeps this member however long an insert takes.
//!
//! Must not commit, and must not hold more than two blocks: the one being inserted and the one being filled.

use crate::Settings;
use crate::decode::decode;
use crate::metrics;
use crate::rejected::DeadLetter;
use crate::resolve::Unresolved;
use crate::row::ObservationRow;
use anyhow::Context;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use service_kit::kafka;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A block of rows stays below 100,000 with one more request of 1,000 events.
const BLOCK_ROWS: usize = 99_000;
const BLOCK_BYTES: usize = 32 * 1024 * 1024;
/// Pause after an error of the consumer; most pass by themselves.
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// What leaving the group may take.
const LEAVE_DEADLINE: Duration = Duration::from_secs(3);

/// Decoded records, and the offsets they came from.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) rows: Vec<ObservationRow>,
    /// Records that become rows once PostgreSQL has said what their click tokens stand for.
    pub(crate) unresolved: Vec<Unresolved>,
    pub(crate) dead_letters: Vec<DeadLetter>,
    /// First and last offset by partition.
    pub(crate) offsets: BTreeMap<i32, (i64, i64)>,
    unresolved_events: usize,
    bytes: usize,
    opened: Option<Instant>,
}

impl Block {
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    fn is_full(&self) -> bool {
        self.rows.len() + self.unresolved_events >= BLOCK_ROWS || self.bytes >= BLOCK_BYTES
    }

    fn push(&mut self, message: &BorrowedMessage<'_>) {
        let payload = message.payload().unwrap_or_default();
        let (partition, offset) = (message.partition(), message.offset());
        let origin = || format!("{}/{partition}/{offset}", message.topic());
        match decode(payload) {
            Ok(record) if record.is_unresolved() => {
                self.unresolved_events += record.events.len();
                self.unresolved.push(Unresolved { record, payload: payload.to_vec(), origin: origin() });
            }
            Ok(record) => self.take(ObservationRow::of(record)),
            Err(reason) => self.reject(DeadLetter { payload: payload.to_vec(), origin: origin(), reason }),
        }
        self.bytes += payload.len();
        self.opened.get_or_insert_with(Instant::now);
        let range = self.offsets.entry(partition).or_insert((offset, offset));
        // After a rebalance a partition may start again before the block's last offset.
        *range = (range.0.min(offset), range.1.max(offset));
    }

    /// Adds the rows of one record.
    pub(crate) fn take(&mut self, rows: Vec<ObservationRow>) {
        metrics::decoded(rows.len());
        self.rows.extend(rows);
    }

    /// Sets one record aside.
    pub(crate) fn reject(&mut self, letter: DeadLetter) {
        metrics::rejected();
        self.dead_letters.push(letter);
    }
}

/// Fills blocks from the log.
pub(crate) struct Collector {
    consumer: Arc<StreamConsumer>,
    topic: String,
    block_age: Duration,
    next: Block,
    is_paused: bool,
}

impl Collector {
    pub(crate) fn connect(settings: &Settings) -> anyhow::Result<Self> {
        let consumer: StreamConsumer = kafka::client(&settings.kafka.kafka_brokers)
            .set("group.id", &settings.tuning.group)
            .set("group.protocol", "consumer")
            // A new group, or one whose offsets are gone, must read everything: repeats are harmless, gaps are not.
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("fetch.wait.max.ms", "100")
            .set("queued.max.messages.kbytes", "65536")
            .create()
            .with_context(|| format!("KAFKA_BROKERS={}: no consumer can be made", settings.kafka.kafka_brokers))?;
        consumer.subscribe(&[&settings.kafka.topic]).context("the topic cannot be subscribed")?;
        Ok(Self {
            consumer: Arc::new(consumer),
            topic: settings.kafka.topic.clone(),
            block_age: settings.tuning.block_age(),
            next: Block::default(),
            is_paused: false,
        })
    }

    /// The next block: full, or old enough. Safe to drop and call again: what it has collected stays.
    pub(crate) async fn block(&mut self) -> Block {
        while !self.next.is_full() {
            let due = self.next.opened.map(|opened| opened + self.block_age);
            let wait = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = wait => break,
                () = self.take_one() => {}
            }
        }
        self.resume();
        std::mem::take(&mut self.next)
    }

    /// Goes on polling while something else is awaited, so that the group keeps this member. Never ends.
    pub(crate) async fn keep_polling(&mut self) {
        loop {
            if self.next.is_full() {
                self.pause();
            }
            self.take_one().await;
        }
    }

    /// Leaves the group. Closing a consumer that is still joining can hang in the client library, so it is given a
    /// thread of its own and a bounded wait; the group drops a silent member by itself.
    pub(crate) async fn leave(self) {
        let (left, has_left) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            drop(self.consumer);
            let _ = left.send(());
        });
        if tokio::time::timeout(LEAVE_DEADLINE, has_left).await.is_err() {
            tracing::warn!("the group was not left in time; it will notice by itself");
        }
    }

    async fn take_one(&mut self) {
        match self.consumer.recv().await {
            Ok(message) => self.next.push(&message),
            Err(error) => {
                tracing::warn!("reading the log: {error}");
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }

    /// Asked again for every record that still comes: partitions assigned meanwhile are not paused yet.
    fn pause(&mut self) {
        self.is_paused = true;
        if let Ok(assignment) = self.consumer.assignment() {
            let _ = self.consumer.pause(&assignment);
        }
    }

    fn resume(&mut self) {
        if std::mem::take(&mut self.is_paused)
            && let Ok(assignment) = self.consumer.assignment()
        {
            let _ = self.consumer.resume(&assignment);
        }
    }

    /// Commits the offsets behind a block. A failure is harmless: the records are read again and change nothing.
    pub(crate) async fn commit(&self, offsets: &BTreeMap<i32, (i64, i64)>) {
        let mut list = TopicPartitionList::new();
        for (partition, (_, last)) in offsets {
            list.add_partition_offset(&self.topic, *partition, Offset::Offset(last + 1))
                .expect("an offset read from the log is valid");
        }
        let consumer = Arc::clone(&self.consumer);
        let committed = tokio::task::spawn_blocking(move || consumer.commit(&list, CommitMode::Sync)).await;
        if !matches!(committed, Ok(Ok(()))) {
            metrics::commit_failed();
            tracing::warn!("offsets were not committed; their records will be read again: {committed:?}");
        }
    }
}
