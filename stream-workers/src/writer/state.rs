//! State of a writer: its epoch, the offsets it has stored, and the place of each key's row.
//!
//! It changes after the statements of a block are done, never before: a writer that fails in between is replaced by one
//! that reads everything from the tables.

use super::caution::{Caution, Suspect};
use super::epoch::{Epoch, epoch_of, version};
use super::hot_rows::HotRows;
use super::progress::{NextOffsets, Progress};
use super::server::{Ended, Server};
use crate::consume::Offsets;
use crate::consume::partition_stats::{CountsByPartition, PartitionStats};
use schemas::event_key::EventKey;
use std::collections::{HashMap, HashSet};
use store::facts::Facts;
use store::key_index::{KeyIndex, KeyPlace};
use store::row::{EventPlace, EventRow, EventWrite, WrittenReport};
use tokio::time::Instant;

/// State of the active writer.
pub(super) struct State {
    pub(super) epoch: Epoch,
    pub(super) progress: Progress,
    /// The number of the last block.
    block: u64,
    pub(super) index: KeyIndex,
    pub(super) hot: HotRows,
    pub(super) sites: HashSet<String>,
    /// Rows of `reports` that an interrupted block wrote, by identity; the first block covers their records.
    pub(super) interrupted: HashMap<EventKey, WrittenReport>,
    /// How far the first block must reach for them.
    pub(super) cover: NextOffsets,
    pub(super) caution: Caution,
    /// Whether the newest row of `progress` may name a record that is being decoded.
    is_noted: bool,
}

impl State {
    /// The state of a writer that knows no row yet.
    pub(super) fn new(epoch: Epoch, progress: Progress) -> Self {
        Self {
            caution: Caution::new(epoch.number, epoch_of(progress.complete), progress.suspect),
            progress: Progress { beat: version(epoch.number, 0), ..progress },
            block: 0,
            index: KeyIndex::default(),
            hot: HotRows::default(),
            sites: HashSet::new(),
            interrupted: HashMap::new(),
            cover: NextOffsets::new(),
            is_noted: false,
            epoch,
        }
    }

    /// Stores what was read from the tables.
    pub(super) fn begin(&mut self, interrupted: Vec<Interrupted>, index: KeyIndex, sites: Vec<String>) {
        for row in &interrupted {
            let next = self.cover.entry(row.partition).or_default();
            *next = (*next).max(row.offset + 1);
        }
        self.interrupted = interrupted.into_iter().map(|row| (row.written.place.identity, row.written)).collect();
        self.index = index;
        self.sites = sites.into_iter().collect();
    }

    /// The version of the next block.
    pub(super) fn next_version(&self) -> u64 {
        version(self.epoch.number, self.block + 1)
    }

    /// Inserts a row of `progress` that says that the writer is alive. A number is used once, even if this is dropped.
    pub(super) async fn beat(&mut self, server: &Server, topic: &str) -> Result<(), Ended> {
        self.progress.beat += 1;
        self.progress.insert(server, &self.epoch, topic).await
    }

    /// Notes that a record is being decoded.
    pub(super) async fn note(&mut self, suspect: Suspect, server: &Server, topic: &str) -> Result<(), Ended> {
        self.is_noted = true;
        self.progress.suspect = Some(suspect);
        self.beat(server, topic).await
    }

    /// Notes that no record is being decoded any more.
    pub(super) async fn forget_suspect(&mut self, server: &Server, topic: &str) -> Result<(), Ended> {
        if self.is_noted {
            self.progress.suspect = None;
            self.beat(server, topic).await?;
            self.is_noted = false;
        }
        Ok(())
    }

    /// The row of `progress` of the next block, which has read these offsets.
    pub(super) fn next_progress(&self, offsets: &Offsets, tally: &CountsByPartition) -> Progress {
        let (beat, complete) = (self.progress.beat + 1, self.next_version());
        let mut progress = Progress { beat, complete, suspect: None, ..self.progress.clone() };
        for (partition, (first, last)) in offsets {
            let stats = progress.partitions.get(partition).copied().unwrap_or_else(|| PartitionStats::anew(*first));
            progress.partitions.insert(*partition, stats.at(*first).past(tally.get(*partition), last + 1));
        }
        progress
    }

    /// Stores what a block has changed.
    pub(super) fn complete(&mut self, progress: Progress, written: Written, now: Instant) {
        self.block += 1;
        self.progress = progress;
        self.interrupted.clear();
        self.cover.clear();
        self.sites.extend(written.sites);
        let Written { known, events, .. } = written;
        let (rows, tombstones): (Vec<_>, Vec<_>) = events.into_iter().partition(|write| matches!(write, EventWrite::Row(_)));
        let live: HashSet<EventKey> = rows.iter().map(|row| row.place().key).collect();
        for EventPlace { key, .. } in tombstones.iter().map(EventWrite::place).filter(|place| !live.contains(&place.key)) {
            self.hot.remove(key);
            self.index.remove(key);
        }
        for row in rows {
            if let EventWrite::Row(row) = row {
                self.remember(row, &known, now);
            }
        }
        self.hot.expire(now);
    }

    fn remember(&mut self, row: EventRow<Facts>, known: &HashSet<EventKey>, now: Instant) {
        let place = KeyPlace { home: row.home, at_ms: row.at_ms() };
        if known.contains(&row.key) {
            self.index.update(row.key, place);
        } else {
            self.index.insert(row.key, place);
        }
        // Only events with a correlation id get another report; a copy of any other report is rare.
        let is_shared = row.reports.first().is_some_and(|report| report.accepted.identity != row.key);
        if is_shared {
            self.hot.put(row, now);
        }
    }
}

/// A row of `reports` that an interrupted block wrote, and the record it comes from.
pub(super) struct Interrupted {
    pub(super) written: WrittenReport,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

/// What a block has changed.
pub(super) struct Written {
    /// Keys that had a row before.
    pub(super) known: HashSet<EventKey>,
    /// Hosts that occurred for the first time.
    pub(super) sites: Vec<String>,
    pub(super) events: Vec<EventWrite<Facts>>,
}
