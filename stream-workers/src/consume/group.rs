//! This member of the group: joining, what it has been given, commits, leaving.
//!
//! Must not read records, and must not commit for a partition that is another member's now.

use super::block::Offsets;
use super::crash_guard::CrashGuard;
use super::partition_stats::{CountsByPartition, PartitionStats};
use crate::Settings;
use crate::metrics;
use anyhow::Context;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use service_kit::clock::Clock;
use service_kit::kafka;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::spawn_blocking;

/// What leaving the group may take.
const LEAVE_DEADLINE: Duration = Duration::from_secs(3);
/// The age in milliseconds from which a record must have been seen before: a new topic has none as old.
const OLD_MS: i64 = 60_000;
/// What asking for a committed offset may take.
const COMMITTED_DEADLINE: Duration = Duration::from_secs(5);

/// What the committed offset of a partition says, and what is to be said with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommittedMetadata {
    pub(crate) crash_guard: CrashGuard,
    pub(crate) settled: PartitionStats,
}

impl CommittedMetadata {
    /// Reads what stands beside a committed offset; where there is none, everything begins at the first record.
    fn found(committed: Offset, metadata: &str, first: i64) -> Self {
        let settled = match committed {
            Offset::Offset(committed) => PartitionStats::found(metadata, committed),
            _ => PartitionStats::anew(0),
        };
        Self { crash_guard: CrashGuard::found(metadata, first), settled: settled_at(settled, first) }
    }

    /// Goes on to the record at `offset`.
    pub(crate) fn at(self, offset: i64) -> Self {
        Self { settled: settled_at(self.settled, offset), ..self }
    }

    /// What to commit before decoding, beside the offset of the first record to be decoded.
    pub(crate) fn decoding(&self) -> String {
        self.with(self.crash_guard.decoding())
    }

    /// What to commit once they are decoded, and with every offset that follows.
    pub(crate) fn decoded(&self) -> String {
        self.with(self.crash_guard.decoded())
    }

    fn with(&self, crash_guard: String) -> String {
        let settled = self.settled.noted();
        let both = [crash_guard, settled];
        both.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// Goes on to the record at `offset`, and says so when there should have been others before it.
fn settled_at(settled: PartitionStats, offset: i64) -> PartitionStats {
    missed(u64::try_from(offset - settled.next).unwrap_or(0));
    settled.at(offset)
}

fn missed(records: u64) {
    if records > 0 {
        metrics::missed(records);
        tracing::warn!(records, "the log has dropped records that nobody had read");
    }
}

/// What this member has.
#[derive(Default)]
pub(crate) struct Assigned(Mutex<Holdings>);

#[derive(Default)]
struct Holdings {
    /// By partition; one that it has just been given is not there yet.
    held: BTreeMap<i32, CommittedMetadata>,
    /// Taken away since this was last asked.
    taken: BTreeSet<i32>,
    /// All that it has been given.
    given: BTreeSet<i32>,
}

impl Assigned {
    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partitions that this member has been given.
    pub(crate) fn partitions(&self) -> BTreeSet<i32> {
        self.holdings().given.clone()
    }
}

impl ClientContext for Assigned {}

impl ConsumerContext for Assigned {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            let mut holdings = self.holdings();
            for taken in list.elements() {
                holdings.held.remove(&taken.partition());
                holdings.taken.insert(taken.partition());
            }
        }
        metrics::rebalanced();
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        if let Ok(held) = consumer.assignment() {
            metrics::assigned(held.count());
            self.holdings().given = held.elements().iter().map(TopicPartitionListElem::partition).collect();
        }
    }
}

/// One member, as it was given to the client library.
pub(crate) struct Member {
    pub(crate) consumer: Arc<StreamConsumer<Assigned>>,
    topic: String,
}

impl Member {
    pub(crate) fn join(settings: &Settings) -> anyhow::Result<Self> {
        let consumer: StreamConsumer<Assigned> = kafka::client(&settings.kafka)?
            .set("group.id", &settings.tuning.group)
            .set("group.protocol", "consumer")
            // A new group, or one whose offsets are gone, must read everything: repeats are harmless, gaps are not.
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("fetch.wait.max.ms", "100")
            .set("queued.max.messages.kbytes", "65536")
            .create_with_context(Assigned::default())
            .with_context(|| format!("KAFKA_BROKERS={}: no consumer can be made", settings.kafka.kafka_brokers))?;
        consumer.subscribe(&[&settings.kafka.topic]).context("the topic cannot be subscribed")?;
        Ok(Self { consumer: Arc::new(consumer), topic: settings.kafka.topic.clone() })
    }

    /// The topic that it reads.
    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    /// How to go on in a partition; nothing while it is not known.
    pub(crate) fn held(&self, partition: i32) -> Option<CommittedMetadata> {
        self.consumer.context().holdings().held.get(&partition).copied()
    }

    /// Partitions that were taken away since this was last asked; they may be back.
    pub(crate) fn taken(&self) -> BTreeSet<i32> {
        std::mem::take(&mut self.consumer.context().holdings().taken)
    }

    pub(crate) fn hold(&self, partition: i32, held: CommittedMetadata) {
        self.consumer.context().holdings().held.insert(partition, held);
    }

    /// Asks what the last owner of a partition has left at its committed offset; nothing while nobody can say. Without that
    /// there is no going on: the next commit would write over it. `came_ms` is when the first record came to the log.
    pub(crate) async fn found(&self, partition: i32, first: i64, came_ms: Option<i64>) -> Option<CommittedMetadata> {
        let (consumer, topic) = (Arc::clone(&self.consumer), self.topic.clone());
        let old_ms = Clock::System.now().timestamp_millis() - OLD_MS;
        let asked = spawn_blocking(move || {
            let mut asked = TopicPartitionList::new();
            asked.add_partition(&topic, partition);
            let found = consumer.committed_offsets(asked, COMMITTED_DEADLINE)?;
            let left = found.find_partition(&topic, partition);
            left.map(|left| {
                left.error()?;
                if left.offset() == Offset::Invalid && came_ms.is_some_and(|came_ms| came_ms < old_ms) {
                    metrics::offset_missing();
                    tracing::warn!(
                        partition,
                        "the group has no offset for a partition with old records: all of it is read again"
                    );
                }
                Ok(CommittedMetadata::found(left.offset(), left.metadata(), first))
            })
            .transpose()
        });
        let found: KafkaResult<Option<CommittedMetadata>> = asked.await.unwrap_or(Ok(None));
        found.unwrap_or_else(|error| {
            tracing::warn!(partition, "what was committed cannot be asked, trying again: {error}");
            None
        })
    }

    /// Says beside the committed offset of partitions what is being done with the record there. That is a commit: all
    /// that comes before must be done.
    pub(crate) async fn note(&self, notes: Vec<(i32, i64, String)>) {
        if !notes.is_empty()
            && let Err(error) = self.commit_all(notes).await
        {
            tracing::warn!("how far decoding is could not be noted: {error}");
        }
    }

    /// Commits the offsets behind a block. A failure is harmless: the records are read again and change nothing.
    pub(crate) async fn commit(&self, offsets: &Offsets, tally: &CountsByPartition) {
        let next: Vec<_> = {
            let mut holdings = self.consumer.context().holdings();
            let held = offsets.iter().filter_map(|(partition, (first, last))| {
                let held = holdings.held.get_mut(partition)?;
                held.crash_guard = held.crash_guard.past(last + 1);
                let counts = tally.get(*partition);
                *held = held.at(*first);
                held.settled = held.settled.past(counts, last + 1);
                missed((last + 1 - first).unsigned_abs().saturating_sub(counts.records));
                Some((*partition, last + 1, held.decoded()))
            });
            held.collect()
        };
        // What was taken away meanwhile is for its new owner to commit.
        if next.is_empty() {
            return;
        }
        if let Err(error) = self.commit_all(next).await {
            metrics::commit_failed();
            tracing::warn!("offsets were not committed; their records will be read again: {error}");
        }
    }

    async fn commit_all(&self, notes: Vec<(i32, i64, String)>) -> anyhow::Result<()> {
        let mut list = TopicPartitionList::new();
        for (partition, next, note) in notes {
            let mut element = list.add_partition(&self.topic, partition);
            element.set_offset(Offset::Offset(next)).expect("an offset read from the log is valid");
            element.set_metadata(note);
        }
        let consumer = Arc::clone(&self.consumer);
        Ok(spawn_blocking(move || consumer.commit(&list, CommitMode::Sync)).await??)
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
}
