//! A partition's progress: its stored offset, and its records' outcomes.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Counts of records, and of events by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub records: u64,
    /// Stored events, including repeats.
    pub stored: u64,
    /// Records that became dead letters.
    pub rejected_records: u64,
    /// Events in those records, as far as they could be counted.
    pub rejected: u64,
}

impl Counts {
    /// Returns the events that are stored or rejected.
    pub fn events(&self) -> u64 {
        self.stored + self.rejected
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.records += more.records;
        self.stored += more.stored;
        self.rejected_records += more.rejected_records;
        self.rejected += more.rejected;
    }
}

pub(crate) type CountsByPartition = BTreeMap<i32, Counts>;

pub(crate) fn sum<'a>(counts: impl Iterator<Item = &'a Counts>) -> Counts {
    counts.fold(Counts::default(), |mut all, counts| {
        all += *counts;
        all
    })
}

/// Returns the counts of some partitions, and the number of missing offsets.
pub(crate) fn total<'a>(stats: impl Iterator<Item = &'a PartitionStats> + Clone) -> (Counts, u64) {
    (sum(stats.clone().map(|stats| &stats.counts)), stats.map(PartitionStats::missing).sum())
}

/// Outcomes of the records between two offsets in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionStats {
    /// Offset at which counting started.
    pub since: i64,
    /// Offset of the next record to read.
    pub next: i64,
    pub counts: Counts,
}

impl PartitionStats {
    pub fn starting_at(next: i64) -> Self {
        Self { since: next, next, counts: Counts::default() }
    }

    /// Continues at the record at `offset`. A larger offset than `next` means that the log has dropped the records in between. A smaller
    /// one means that the log was recreated, so counting restarts.
    pub(crate) fn continue_at(self, offset: i64) -> Self {
        if offset < self.next { Self::starting_at(offset) } else { Self { next: offset, ..self } }
    }

    /// Adds records up to `next`, exclusive.
    pub(crate) fn past(mut self, counts: Counts, next: i64) -> Self {
        self.counts += counts;
        Self { next, ..self }
    }

    /// Returns the number of offsets without a record, because retention dropped it before it was read.
    pub fn missing(&self) -> u64 {
        u64::try_from(self.next - self.since).unwrap_or(0).saturating_sub(self.counts.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_missing_records_and_restarts_on_a_new_log() {
        let counts = |records| Counts { records, ..Counts::default() };
        let begun = PartitionStats::starting_at(4).past(counts(6), 10);
        assert_eq!((begun.since, begun.next, begun.missing()), (4, 10, 0));
        let cut = begun.continue_at(15).past(counts(5), 20);
        assert_eq!((cut.since, cut.counts.records, cut.missing()), (4, 11, 5));
        assert_eq!(cut.continue_at(7), PartitionStats::starting_at(7));
    }
}
