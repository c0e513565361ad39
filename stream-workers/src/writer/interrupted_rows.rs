//! The rows that an interrupted block wrote to `reports`, and how far the blocks after it must reach.
//!
//! A writer reads its predecessor's last block again, because part of it may be missing from `events`. The simulator in
//! `store/src/simulation.rs` shows what this requires:
//!
//! - A block with a report of a group has all reports of that group that the interrupted block wrote.
//! - A block is complete only when all records of the interrupted one are covered, so that another successor finds the same
//!   rows.
//!
//! Otherwise, blocks are divided as usual, so a long backlog, as after a restore from a backup, doesn't need a large block.

use super::progress::NextOffsets;
use crate::consume::Origin;
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use std::collections::{BTreeMap, HashMap};
use store::row::WrittenReport;

/// The log's partitions with their first offsets; `None` if a partition currently has no leader.
pub(super) type Begins = BTreeMap<i32, Option<i64>>;

/// A row of `reports` that an interrupted block wrote.
#[derive(Clone, Debug)]
pub(super) struct Interrupted {
    pub(super) written: WrittenReport,
    /// The key that it shares with other observers, if any.
    pub(super) shared_key: Option<EventKey>,
    /// Reversed host, or empty.
    pub(super) site: Box<str>,
    /// The organization with a second row for the report.
    pub(super) issuer: Option<OrgId>,
    pub(super) origin: Origin,
}

impl Interrupted {
    fn group(&self) -> EventKey {
        self.shared_key.unwrap_or(self.written.place.identity)
    }
}

/// The rows that are not covered yet, about 250 bytes each.
#[derive(Default)]
pub(super) struct InterruptedRows {
    rows: HashMap<EventKey, Interrupted>,
    by_group: Vec<(EventKey, Origin)>,
    by_record: Vec<(Origin, EventKey)>,
    /// Offset after each partition's last record.
    ends: NextOffsets,
    /// How far the block being read must reach.
    needed: NextOffsets,
    /// Records before these offsets can't be read.
    begins: NextOffsets,
}

impl InterruptedRows {
    pub(super) fn new(rows: Vec<Interrupted>) -> Self {
        let mut by_group: Vec<_> = rows.iter().map(|row| (row.group(), row.origin)).collect();
        let mut by_record: Vec<_> = rows.iter().map(|row| (row.origin, row.group())).collect();
        by_group.sort_unstable();
        by_record.sort_unstable();
        let mut ends = NextOffsets::new();
        rows.iter().for_each(|row| reach(&mut ends, row.origin));
        let rows = rows.into_iter().map(|row| (row.written.place.identity, row)).collect();
        Self { rows, by_group, by_record, ends, ..Self::default() }
    }

    /// Returns whether there is no interrupted block to cover.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn get(&self, identity: EventKey) -> Option<&Interrupted> {
        self.rows.get(&identity)
    }

    /// Adds a record with reports in these groups to the block.
    pub(super) fn read(&mut self, record: Origin, groups: impl Iterator<Item = EventKey>) {
        if self.ends.is_empty() {
            return;
        }
        let of_record = range(&self.by_record, &record).iter().map(|(_, group)| *group);
        for group in of_record.chain(groups) {
            range(&self.by_group, &group).iter().for_each(|(_, origin)| reach(&mut self.needed, *origin));
        }
    }

    /// Adds a record with unknown groups to the block, which must then reach every interrupted report.
    pub(super) fn read_unknown(&mut self) {
        self.needed.clone_from(&self.ends);
    }

    /// Returns whether a block that has read up to here may end.
    pub(super) fn may_end(&self, next: &NextOffsets) -> bool {
        self.are_reached(&self.needed, next)
    }

    pub(super) fn is_complete(&self, next: &NextOffsets) -> bool {
        self.are_reached(&self.ends, next)
    }

    fn are_reached(&self, ends: &NextOffsets, next: &NextOffsets) -> bool {
        ends.iter().all(|(partition, end)| self.passed(*partition, next) >= *end)
    }

    /// Returns the offset before which no more records can arrive.
    fn passed(&self, partition: i32, next: &NextOffsets) -> i64 {
        let at = |offsets: &NextOffsets| offsets.get(&partition).copied().unwrap_or(0);
        at(next).max(at(&self.begins))
    }

    /// Gives up records that are no longer on the log.
    pub(super) fn clamp(&mut self, begins: &Begins) {
        for partition in self.ends.keys() {
            match begins.get(partition) {
                None => drop(self.begins.insert(*partition, i64::MAX)),
                Some(Some(begin)) => {
                    let known = self.begins.entry(*partition).or_default();
                    *known = (*known).max(*begin);
                }
                Some(None) => {}
            }
        }
    }

    /// Gives up all records of a recreated partition.
    pub(super) fn give_up(&mut self, partition: i32) {
        self.begins.insert(partition, i64::MAX);
    }

    /// Returns the rows of records before these offsets.
    pub(super) fn read_again(&self, next: &NextOffsets) -> impl Iterator<Item = &Interrupted> {
        self.rows.values().filter(move |row| row.origin.1 < self.passed(row.origin.0, next))
    }

    /// Removes what a stored block up to `next` has covered.
    pub(super) fn stored(&mut self, next: &NextOffsets) {
        if self.is_complete(next) {
            *self = Self::default();
            return;
        }
        self.needed.clear();
        let done: Vec<EventKey> = self.read_again(next).map(|row| row.written.place.identity).collect();
        done.iter().for_each(|identity| drop(self.rows.remove(identity)));
    }
}

/// Moves a partition's end past a record.
fn reach(ends: &mut NextOffsets, (partition, offset): Origin) {
    let end = ends.entry(partition).or_default();
    *end = (*end).max(offset + 1);
}

/// Returns the elements of a sorted list with this key.
fn range<'a, K: Ord, V>(sorted: &'a [(K, V)], key: &K) -> &'a [(K, V)] {
    let from = sorted.partition_point(|(other, _)| other < key);
    let length = sorted[from..].partition_point(|(other, _)| other == key);
    &sorted[from..from + length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::report::{Acceptance, Home};
    use store::row::ReportPlace;
    use uuid::Uuid;

    fn row(identity: u128, group: u128, origin: Origin) -> Interrupted {
        let identity = EventKey(identity);
        let place = ReportPlace { home: Home(202_611), org: OrgId(Uuid::nil()), at_ms: 0, identity };
        let written = WrittenReport { place, accepted: Acceptance { at_us: 0, place: 0, identity } };
        Interrupted { written, shared_key: Some(EventKey(group)), site: "".into(), issuer: None, origin }
    }

    fn offsets<const N: usize>(of: [(i32, i64); N]) -> NextOffsets {
        NextOffsets::from(of)
    }

    #[test]
    fn blocks_cover_every_report_in_their_groups() {
        let mut cover = InterruptedRows::new(vec![row(1, 7, (0, 3)), row(2, 7, (1, 9)), row(3, 8, (1, 20))]);
        assert!(cover.may_end(&offsets([])) && !cover.is_complete(&offsets([])));
        // The block's own reports aren't known yet, but the interrupted block's are.
        cover.read((0, 3), [].into_iter());
        assert!(!cover.may_end(&offsets([(0, 4)])) && cover.may_end(&offsets([(0, 4), (1, 10)])));
        cover.stored(&offsets([(0, 4), (1, 10)]));
        assert!(cover.get(EventKey(1)).is_none() && cover.get(EventKey(3)).is_some());
        cover.read((0, 4), [EventKey(8)].into_iter());
        assert!(!cover.may_end(&offsets([(0, 5), (1, 20)])) && cover.is_complete(&offsets([(0, 5), (1, 21)])));
    }

    #[test]
    fn unknown_groups_extend_blocks_to_all_interrupted_reports() {
        let mut cover = InterruptedRows::new(vec![row(1, 7, (0, 3)), row(2, 8, (1, 20))]);
        cover.read_unknown();
        assert!(!cover.may_end(&offsets([(0, 4), (1, 20)])) && cover.may_end(&offsets([(0, 4), (1, 21)])));
    }

    #[test]
    fn skips_records_that_retention_dropped() {
        let mut cover = InterruptedRows::new(vec![row(1, 1, (0, 3)), row(2, 2, (1, 9)), row(3, 3, (2, 5))]);
        // Partition 1 no longer exists, and partition 2 has no leader.
        cover.clamp(&Begins::from([(0, Some(4)), (2, None)]));
        assert!(!cover.is_complete(&offsets([])) && cover.is_complete(&offsets([(2, 6)])));
        let given_up: Vec<u128> = cover.read_again(&offsets([])).map(|row| row.written.place.identity.0).collect();
        assert_eq!(given_up.len(), 2, "{given_up:?}");
    }
}
