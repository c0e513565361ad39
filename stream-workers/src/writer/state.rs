//! A writer's state: its epoch, its stored offsets, and the place of each key's row.
//!
//! It changes only after a block's statements are done. A writer that fails earlier is replaced by one that reads everything from the
//! tables.

use super::epoch::{Epoch, epoch_of, released, version};
use super::interrupted_rows::{Interrupted, InterruptedRows};
use super::kafka_contact::KafkaContact;
use super::poison_records::{DecodeCaution, Suspect};
use super::progress::{self, Progress};
use super::row_cache::RowCache;
use super::sites::Sites;
use super::statements::{Server, WriterExit};
use crate::consume::Offsets;
use crate::consume::partition_stats::{CountsByPartition, PartitionStats};
use schemas::event_key::EventKey;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use store::facts::Facts;
use store::key_index::{KeyIndex, KeyPlace};
use store::report::Home;
use store::row::{EventPlace, EventRow, EventWrite};
use tokio::time::Instant;

pub(super) struct State {
    pub(super) epoch: Epoch,
    /// The first month that retention keeps. Nothing is stored in earlier months.
    pub(super) first_month: Home,
    pub(super) progress: Progress,
    block: u64,
    pub(super) changed: ChangeCounts,
    pub(super) index: KeyIndex,
    pub(super) row_cache: RowCache,
    pub(super) sites: Sites,
    /// Rows that an interrupted block wrote to `reports`.
    pub(super) interrupted_rows: InterruptedRows,
    pub(super) caution: DecodeCaution,
    beat: AtomicU64,
    /// Whether the newest row of `progress` may name a record that is being decoded.
    is_noted: bool,
    /// Contact with the log's brokers.
    pub(super) contact: KafkaContact,
}

impl State {
    /// Creates the state of a writer that doesn't know any rows yet. `starts_since` counts the processes that have become the writer after
    /// an epoch.
    pub(super) fn new(epoch: Epoch, first_month: Home, progress: Progress, starts_since: impl Fn(u64) -> u64) -> Self {
        let beat_epoch = epoch_of(progress.beat);
        let last_released = if progress.beat == released(beat_epoch) { beat_epoch } else { 0 };
        let last_clean = epoch_of(progress.complete).max(last_released);
        Self {
            caution: DecodeCaution::new(starts_since(last_clean), progress.suspect),
            beat: AtomicU64::new(version(epoch.number, 0)),
            progress,
            block: 0,
            changed: ChangeCounts::default(),
            index: KeyIndex::default(),
            row_cache: RowCache::default(),
            sites: Sites::default(),
            interrupted_rows: InterruptedRows::default(),
            is_noted: false,
            contact: KafkaContact::without_log(),
            epoch,
            first_month,
        }
    }

    pub(super) fn begin(&mut self, interrupted: Vec<Interrupted>, index: KeyIndex, sites: Sites) {
        self.interrupted_rows = InterruptedRows::new(interrupted);
        self.index = index;
        self.sites = sites;
    }

    /// Continues in another epoch, after a block that has not changed `events`.
    pub(super) fn continue_in(&mut self, epoch: Epoch, interrupted: Vec<Interrupted>) {
        self.beat = AtomicU64::new(version(epoch.number, 0));
        self.block = 0;
        self.epoch = epoch;
        self.interrupted_rows = InterruptedRows::new(interrupted);
    }

    pub(super) fn next_version(&self) -> u64 {
        version(self.epoch.number, self.block + 1)
    }

    /// Returns a version for rows outside of blocks.
    pub(super) fn take_version(&mut self) -> u64 {
        self.block += 1;
        version(self.epoch.number, self.block)
    }

    fn forget(&mut self, key: EventKey) {
        self.row_cache.remove(key);
        self.index.remove(key);
    }

    /// Inserts a heartbeat into `progress`, concurrently with other statements. Without contact with Kafka, only checks whether
    /// another writer has taken over.
    pub(super) async fn beat(&self, server: &Server, topic: &str) -> Result<(), WriterExit> {
        if self.contact.is_lost() {
            return match progress::head(server).await {
                Ok((newest, _)) if newest > self.epoch.number => Err(WriterExit::Fenced(self.epoch.number)),
                _ => Ok(()),
            };
        }
        Progress { beat: self.next_beat(), ..self.progress.clone() }.insert_concurrently(server, &self.epoch, topic).await
    }

    /// Inserts the last row of this epoch into `progress`. See [`released`].
    pub(super) async fn release(&self, server: &Server, topic: &str) -> Result<(), WriterExit> {
        // The writer may have stopped while it noted a record.
        let has_stored = epoch_of(self.progress.complete) == self.epoch.number;
        let suspect = self.caution.note_at_stop().filter(|_| !has_stored);
        let last = Progress { beat: released(self.epoch.number), suspect, ..self.progress.clone() };
        last.insert(server, &self.epoch, topic).await
    }

    /// Returns the next number, which is used once. A row of `progress` with new content gets its number when it is inserted, so a
    /// heartbeat with the former content never has a larger one.
    pub(super) fn next_beat(&self) -> u64 {
        self.beat.fetch_add(1, Ordering::Relaxed) + 1
    }

    async fn insert_progress(&mut self, server: &Server, topic: &str) -> Result<(), WriterExit> {
        self.progress.beat = self.next_beat();
        self.progress.insert(server, &self.epoch, topic).await
    }

    pub(super) async fn note(&mut self, suspect: Suspect, server: &Server, topic: &str) -> Result<(), WriterExit> {
        self.is_noted = true;
        self.progress.suspect = Some(suspect);
        self.insert_progress(server, topic).await
    }

    /// Clears the note about a record that is being decoded.
    pub(super) async fn forget_suspect(&mut self, server: &Server, topic: &str) -> Result<(), WriterExit> {
        if self.is_noted {
            self.progress.suspect = None;
            self.insert_progress(server, topic).await?;
            self.is_noted = false;
        }
        Ok(())
    }

    /// Returns whether records can be decoded before the last block is stored: no record is noted, and no interrupted block determines
    /// where the next block ends.
    pub(super) fn can_decode_ahead(&self) -> bool {
        self.interrupted_rows.is_empty() && !self.is_noted && self.caution.is_over()
    }

    /// Returns the row of `progress` for the next block, which has read up to these offsets, without its number.
    pub(super) fn next_progress(&self, offsets: &Offsets, tally: &CountsByPartition) -> Progress {
        let mut progress = Progress { suspect: None, ..self.progress.clone() };
        for (partition, (first, last)) in offsets {
            let stats = progress.partitions.get(partition).copied().unwrap_or_else(|| PartitionStats::starting_at(0));
            progress
                .partitions
                .insert(*partition, stats.continue_at(*first).past(tally.get(partition).copied().unwrap_or_default(), last + 1));
        }
        if self.interrupted_rows.is_complete(&progress.next()) {
            progress.complete = self.next_version();
        }
        progress
    }

    pub(super) fn complete(&mut self, progress: Progress, written: Written, now: Instant) {
        self.block += 1;
        self.interrupted_rows.stored(&progress.next());
        self.progress = progress;
        written.sites.iter().for_each(|site| self.sites.insert(site));
        let Written { known, events, reports, .. } = written;
        self.changed.events += events.len() as u64;
        self.changed.reports += reports;
        let (rows, tombstones): (Vec<_>, Vec<_>) = events.into_iter().partition(|write| matches!(write, EventWrite::Row(_)));
        let live: HashSet<EventKey> = rows.iter().map(|row| row.place().key).collect();
        for EventPlace { key, .. } in tombstones.iter().map(EventWrite::place).filter(|place| !live.contains(&place.key)) {
            self.forget(key);
        }
        for row in rows {
            if let EventWrite::Row(row) = row {
                self.remember(row, &known, now);
            }
        }
        self.row_cache.expire(now);
    }

    fn remember(&mut self, row: EventRow<Facts>, known: &HashSet<EventKey>, now: Instant) {
        let place = KeyPlace { home: row.home, at_ms: row.at_ms() };
        if known.contains(&row.key) {
            self.index.update(row.key, place);
        } else {
            self.index.insert(row.key, place);
        }
        // Only events with a correlation id get another report; copies of other reports are rare.
        let is_shared = row.reports.first().is_some_and(|report| report.accepted.identity != row.key);
        if is_shared {
            self.row_cache.put(row, now);
        }
    }
}

pub(super) struct Written {
    /// Keys that already had a row.
    pub(super) known: HashSet<EventKey>,
    /// Hosts that occurred for the first time.
    pub(super) sites: Vec<String>,
    pub(super) events: Vec<EventWrite<Facts>>,
    /// Number of rows of `reports`, without issuers' rows.
    pub(super) reports: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeCounts {
    pub(super) events: u64,
    pub(super) reports: u64,
}
