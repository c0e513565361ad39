//! 4 CONSUME: records become blocks, while the group keeps this member however long an insert takes.
//!
//! Must not commit but what [`Collector::commit`] is told, and must not hold more than two blocks: the one being inserted
//! and the one being filled.

mod block;
mod caution;
mod group;
mod lag;

pub(crate) use block::{Block, Offsets, guarded};
pub(crate) use lag::Lag;

use crate::Settings;
use crate::settled::Tally;
use anyhow::bail;
pub(crate) use group::Assigned;
use group::Member;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Message, OwnedMessage};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pause after an error of the consumer; most pass by themselves.
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// What taking back the notes may take at the end.
const NOTE_DEADLINE: Duration = Duration::from_secs(1);

/// Fills blocks from the log.
pub(crate) struct Collector {
    member: Member,
    block_age: Duration,
    next: Block,
    /// Records that came but may not be decoded before the log says that they are being decoded.
    held: VecDeque<OwnedMessage>,
    /// Partitions of `next` that the log says are being decoded, with the offset they begin at.
    decoding: Vec<(i32, i64)>,
    is_paused: bool,
    lag: Arc<Lag>,
}

impl Collector {
    pub(crate) fn connect(settings: &Settings) -> anyhow::Result<Self> {
        Ok(Self {
            member: Member::join(settings)?,
            block_age: settings.tuning.block_age(),
            next: Block::default(),
            held: VecDeque::new(),
            decoding: Vec::new(),
            is_paused: false,
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
        while !self.is_full() {
            if self.decode_held().await? {
                continue;
            }
            // Nothing is held any more, and the block has room.
            self.resume();
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
                taken = self.take_one() => taken?,
            }
        }
        self.note_decoded().await;
        self.resume();
        self.lag.take();
        // Blocks are alike.
        let next = Block::with_room(self.next.rows.len());
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Goes on polling while something else is awaited, so that the group keeps this member. Ends only when the client
    /// library cannot go on.
    pub(crate) async fn keep_polling(&mut self) -> anyhow::Result<Infallible> {
        loop {
            if self.is_full() || !self.held.is_empty() {
                self.pause();
            }
            self.take_one().await?;
        }
    }

    /// Commits the offsets behind the block that was taken last.
    pub(crate) async fn commit(&self, offsets: &Offsets, tally: &Tally) {
        self.member.commit(offsets, tally).await;
        self.lag.done();
    }

    /// Leaves the group, and takes back that anything is being decoded: who leaves in good order does not die of it.
    pub(crate) async fn leave(mut self) {
        let _ = tokio::time::timeout(NOTE_DEADLINE, self.note_decoded()).await;
        self.member.leave().await;
    }

    /// Also when a partition that is read with caution has all that may be decoded at a time.
    fn is_full(&self) -> bool {
        self.next.is_full() || self.member.is_cautious_enough(&self.next.offsets)
    }

    async fn take_one(&mut self) -> anyhow::Result<()> {
        let consumer = Arc::clone(&self.member.consumer);
        let received = consumer.recv().await;
        self.forget_taken();
        match received {
            Ok(message) => {
                self.lag.read(message.timestamp());
                let is_free = self.member.held(message.partition()).is_some_and(|held| !held.caution.is_needed());
                if is_free && self.held.is_empty() {
                    self.next.push(&message, |_| true);
                } else {
                    self.held.push_back(message.detach());
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
            self.held.retain(|message| message.partition() != *partition);
            self.decoding.retain(|(noted, _)| noted != partition);
        }
        if !taken.is_empty() && self.next.is_empty() && self.held.is_empty() {
            self.lag.forget();
        }
    }

    /// Decodes the first of the records that waited, once the log says so; answers whether there was one. Nothing of an
    /// earlier block of its partition may be on its way: what is noted commits everything before this record.
    async fn decode_held(&mut self) -> anyhow::Result<bool> {
        self.forget_taken();
        let Some(first) = self.held.front() else { return Ok(false) };
        let (partition, offset) = (first.partition(), first.offset());
        let known = self.member.held(partition);
        let found = match known {
            Some(held) => Some(held),
            None => self.member.found(partition, offset).await,
        };
        let Some(mut held) = found else {
            self.wait_for_brokers().await?;
            return Ok(true);
        };
        let is_noted = self.next.offsets.contains_key(&partition);
        if !is_noted {
            held.settled = held.settled.at(offset);
        }
        let quarantine = held.caution.quarantines();
        if quarantine.is_none() && !is_noted && (known.is_none() || held.caution.is_needed()) {
            self.member.note(vec![(partition, offset, held.decoding())]).await;
            self.decoding.push((partition, offset));
            // Asking and noting is not the block's time: several partitions at once would leave none of it.
            self.next.opened = self.next.opened.map(|_| Instant::now());
        }
        self.member.hold(partition, held);
        let Some(message) = self.held.pop_front() else { return Ok(false) };
        match quarantine {
            None => self.next.push(&message, |_| true),
            Some(reason) => self.next.push_unread(&message, reason),
        }
        Ok(true)
    }

    /// Goes on belonging to the group for a moment, and takes no more than has come.
    async fn wait_for_brokers(&mut self) -> anyhow::Result<()> {
        self.pause();
        match tokio::time::timeout(ERROR_PAUSE, self.take_one()).await {
            Ok(taken) => taken,
            Err(_) => Ok(()),
        }
    }

    /// Takes back what [`Self::decode_held`] has noted: whoever dies from here on does not die of decoding.
    async fn note_decoded(&mut self) {
        let noted = self.decoding.iter().filter_map(|(partition, first)| {
            let held = self.member.held(*partition)?;
            Some((*partition, *first, held.decoded()))
        });
        let noted: Vec<_> = noted.collect();
        self.member.note(noted).await;
        self.decoding.clear();
    }

    /// What this member has been given, whoever asks and whenever.
    pub(crate) fn assigned(&self) -> Arc<Assigned> {
        Arc::clone(self.member.consumer.context())
    }

    /// Asked again for every record that still comes: partitions assigned meanwhile are not paused yet.
    fn pause(&mut self) {
        self.is_paused = true;
        if let Ok(assignment) = self.member.consumer.assignment() {
            let _ = self.member.consumer.pause(&assignment);
        }
    }

    fn resume(&mut self) {
        if std::mem::take(&mut self.is_paused)
            && let Ok(assignment) = self.member.consumer.assignment()
        {
            let _ = self.member.consumer.resume(&assignment);
        }
    }
}

/// Whether the client library has given up: it was not asked for too long, or says that nothing helps.
fn is_over(error: &KafkaError) -> bool {
    matches!(error, KafkaError::MessageConsumption(RDKafkaErrorCode::PollExceeded) | KafkaError::MessageConsumptionFatal(_))
}
