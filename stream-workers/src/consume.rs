//! 4 CONSUME: records become blocks, while the group keeps this member however long an insert takes.
//!
//! Must not commit but what [`Collector::commit`] is told, and must not hold more than two blocks: the one being inserted
//! and the one being filled.

mod block;
mod crash_guard;
mod dead_letter;
mod group;
mod lag;
pub(crate) mod topic_reader;
pub mod partition_stats;

pub(crate) use block::{Block, Offsets, Unresolved};
pub(crate) use dead_letter::{DeadLetter, QUARANTINED};
pub(crate) use lag::Lag;

use crate::Settings;
use anyhow::bail;
pub(crate) use group::Assigned;
use group::Member;
use partition_stats::CountsByPartition;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Message, OwnedMessage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pause after an error of the consumer; most pass by themselves.
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// How long a block is filled from other partitions while records of one must wait for the next block.
const WAITING_AGE: Duration = Duration::from_millis(10);

/// What taking back the notes may take at the end.
const NOTE_DEADLINE: Duration = Duration::from_secs(1);

/// Fills blocks from the log.
pub(crate) struct Collector {
    member: Member,
    block_age: Duration,
    next: Block,
    /// Records that came but may not be decoded before the log says that they are being decoded, by partition; none is
    /// empty.
    held: BTreeMap<i32, VecDeque<OwnedMessage>>,
    /// Partitions of `next` that the log says are being decoded, with the offset they begin at.
    decoding: Vec<(i32, i64)>,
    /// Partitions that the client library was told to leave alone.
    paused: BTreeSet<i32>,
    lag: Arc<Lag>,
}

impl Collector {
    pub(crate) fn connect(settings: &Settings) -> anyhow::Result<Self> {
        Ok(Self {
            member: Member::join(settings)?,
            block_age: settings.tuning.block_age(),
            next: Block::default(),
            held: BTreeMap::new(),
            decoding: Vec::new(),
            paused: BTreeSet::new(),
            lag: Arc::default(),
        })
    }

    /// How old what is in hand is.
    pub(crate) fn lag(&self) -> Arc<Lag> {
        Arc::clone(&self.lag)
    }

    /// The next block: full, or old enough. To be asked once the block before is committed or given up. Safe to drop and
    /// call again: what it has collected stays. Fails when the client library cannot go on.
    pub(crate) async fn block(&mut self) -> anyhow::Result<Block> {
        while !self.next.is_full() {
            let is_old = self.next.opened.is_some_and(|opened| opened.elapsed() >= self.block_age);
            if !is_old && self.decode_held().await? {
                continue;
            }
            // What is still held must wait for the next block; whatever else comes may be in this one.
            self.pause();
            self.resume();
            let age = if self.held.is_empty() { self.block_age } else { WAITING_AGE };
            let due = self.next.opened.map(|opened| opened + age);
            let wait = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = wait => break,
                taken = self.take_one() => taken?,
            }
        }
        self.note_decoded(|_| true).await;
        self.lag.take();
        self.held.values().filter_map(VecDeque::front).for_each(|oldest| self.lag.read(oldest.timestamp()));
        // Blocks are alike.
        let next = Block::with_room(self.next.rows.len());
        let block = std::mem::replace(&mut self.next, next);
        self.resume();
        Ok(block)
    }

    /// Goes on polling while something else is awaited, so that the group keeps this member. Ends only when the client
    /// library cannot go on.
    pub(crate) async fn keep_polling(&mut self) -> anyhow::Result<Infallible> {
        loop {
            self.pause();
            self.take_one().await?;
        }
    }

    /// Commits the offsets behind the block that was taken last.
    pub(crate) async fn commit(&self, offsets: &Offsets, tally: &CountsByPartition) {
        self.member.commit(offsets, tally).await;
        self.lag.done();
    }

    /// Leaves the group, and takes back that anything is being decoded: who leaves in good order does not die of it.
    pub(crate) async fn leave(mut self) {
        let _ = tokio::time::timeout(NOTE_DEADLINE, self.note_decoded(|_| true)).await;
        self.member.leave().await;
    }

    async fn take_one(&mut self) -> anyhow::Result<()> {
        let consumer = Arc::clone(&self.member.consumer);
        let received = consumer.recv().await;
        self.forget_taken();
        match received {
            Ok(message) => {
                self.lag.read(message.timestamp());
                let partition = message.partition();
                let is_free = self.member.held(partition).is_some_and(|held| !held.crash_guard.is_needed());
                if is_free && !self.held.contains_key(&partition) {
                    self.next.push(&message, |_| true);
                } else {
                    self.held.entry(partition).or_default().push_back(message.detach());
                }
            }
            Err(error) if is_over(&error) => bail!("the log cannot be read any more ({error}); start this process again"),
            Err(error) => {
                tracing::warn!("reading the log: {error}");
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Leaves out what was read of partitions that were taken away: they may be back, and are then read anew from what is
    /// committed. What was read before must not be counted twice, nor noted as if all before it were done.
    fn forget_taken(&mut self) {
        let taken = self.member.taken();
        for partition in &taken {
            self.next.forget(*partition);
            self.held.remove(partition);
            self.decoding.retain(|(noted, _)| noted != partition);
        }
        if !taken.is_empty() && self.next.is_empty() && self.held.is_empty() {
            self.lag.forget();
        }
    }

    /// Decodes the next of the records that waited, once the log says so; answers whether there was one that need not wait
    /// for the next block. Nothing of an earlier block of its partition may be on its way: what is noted commits everything
    /// before this record.
    async fn decode_held(&mut self) -> anyhow::Result<bool> {
        self.forget_taken();
        if self.held.is_empty() && self.decoding.is_empty() {
            return Ok(false);
        }
        // Who is read alone must not be blamed for what others have to decode in this block.
        let enough: BTreeSet<i32> =
            self.decoding.iter().map(|(noted, _)| *noted).filter(|noted| self.has_enough(*noted)).collect();
        self.note_decoded(|partition| enough.contains(&partition)).await;
        let mut waiting = self.held.iter().filter(|(partition, _)| !self.has_enough(**partition));
        let Some((&partition, records)) = waiting.next() else { return Ok(false) };
        let Some(first) = records.front() else { return Ok(false) };
        let (offset, came_ms) = (first.offset(), first.timestamp().to_millis());
        let known = self.member.held(partition);
        let found = match known {
            Some(held) => Some(held),
            None => self.member.found(partition, offset, came_ms).await,
        };
        let Some(mut held) = found else {
            self.wait_for_brokers().await?;
            return Ok(true);
        };
        let is_noted = self.next.offsets.contains_key(&partition);
        if !is_noted {
            held = held.at(offset);
        }
        let quarantine = held.crash_guard.quarantines();
        if quarantine.is_none() && !is_noted && (known.is_none() || held.crash_guard.is_needed()) {
            // First: whoever is stopped while it is noted has to take it back.
            self.decoding.push((partition, offset));
            self.member.note(vec![(partition, offset, held.decoding())]).await;
            // Asking and noting is not the block's time: several partitions at once would leave none of it.
            self.next.opened = self.next.opened.map(|_| Instant::now());
        }
        self.member.hold(partition, held);
        let Some(message) = self.pop_held(partition) else { return Ok(false) };
        match quarantine {
            None => self.next.push(&message, |_| true),
            Some(reason) => self.next.push_unread(&message, reason),
        }
        Ok(true)
    }

    /// Whether a partition that is read with caution has as many records in this block as may be decoded at a time.
    fn has_enough(&self, partition: i32) -> bool {
        let most = self.member.held(partition).map_or(usize::MAX, |held| held.crash_guard.most_records());
        let in_block = self.next.offsets.get(&partition).map_or(0, |(first, last)| last.abs_diff(*first) + 1);
        in_block >= most as u64
    }

    fn pop_held(&mut self, partition: i32) -> Option<OwnedMessage> {
        let records = self.held.get_mut(&partition)?;
        let first = records.pop_front();
        if records.is_empty() {
            self.held.remove(&partition);
        }
        first
    }

    /// Goes on belonging to the group for a moment, and takes no more than has come.
    async fn wait_for_brokers(&mut self) -> anyhow::Result<()> {
        self.pause();
        match tokio::time::timeout(ERROR_PAUSE, self.take_one()).await {
            Ok(taken) => taken,
            Err(_) => Ok(()),
        }
    }

    /// Takes back what [`Self::decode_held`] has noted of some partitions: whoever dies from here on does not die of
    /// decoding those.
    async fn note_decoded(&mut self, is_done: impl Fn(i32) -> bool) {
        let done = self.decoding.iter().filter(|(partition, _)| is_done(*partition));
        let notes = done.filter_map(|(partition, first)| {
            let held = self.member.held(*partition)?;
            Some((*partition, *first, held.decoded()))
        });
        let notes: Vec<_> = notes.collect();
        self.member.note(notes).await;
        self.decoding.retain(|(partition, _)| !is_done(*partition));
    }

    /// What this member has been given, whoever asks and whenever.
    pub(crate) fn assigned(&self) -> Arc<Assigned> {
        Arc::clone(self.member.consumer.context())
    }

    /// Lets nothing come that there is no room for: of any partition once the block is full, else of those whose records
    /// wait. To be asked again for every record that still comes: partitions assigned meanwhile are not paused yet.
    fn pause(&mut self) {
        if self.held.is_empty() && !self.next.is_full() {
            return;
        }
        let given = self.member.consumer.context().partitions().into_iter();
        let without_room = given.filter(|partition| self.next.is_full() || self.held.contains_key(partition));
        let without_room: BTreeSet<i32> = without_room.collect();
        if !without_room.is_empty() {
            let _ = self.member.consumer.pause(&self.list(&without_room));
            self.paused.extend(without_room);
        }
    }

    /// Lets come again what there is room for in a block that is not full.
    fn resume(&mut self) {
        let (waiting, free) =
            std::mem::take(&mut self.paused).into_iter().partition(|partition| self.held.contains_key(partition));
        self.paused = waiting;
        let free: BTreeSet<i32> = free;
        if !free.is_empty() {
            let _ = self.member.consumer.resume(&self.list(&free));
        }
    }

    fn list(&self, partitions: &BTreeSet<i32>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        partitions.iter().for_each(|partition| {
            list.add_partition(self.member.topic(), *partition);
        });
        list
    }
}

/// Whether the client library has given up: it was not asked for too long, or says that nothing helps.
fn is_over(error: &KafkaError) -> bool {
    matches!(error, KafkaError::MessageConsumption(RDKafkaErrorCode::PollExceeded) | KafkaError::MessageConsumptionFatal(_))
}
