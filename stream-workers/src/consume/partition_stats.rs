//! What has become of the records of a partition, cumulative, and how it stands beside the committed offset: whatever dies,
//! offset and figures move together. Pure.
//!
//! Must count a record once however often it is read: figures are of what lies between two offsets, not of what was done. Must
//! take nothing for its own that it has not written for this very offset.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// How the figures begin in the metadata of an offset.
const WORD: &str = "settled";

/// Records, and events by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records, whatever became of them.
    pub records: u64,
    /// Events whose insert `ClickHouse` has acknowledged as rows of their own.
    pub inserted: u64,
    /// Events that repeated another one of their block, and were not inserted.
    pub folded: u64,
    /// Records that became dead letters.
    pub rejected_records: u64,
    /// Events of those, where they say how many.
    pub rejected: u64,
}

impl Counts {
    /// Events that were worked off.
    pub fn events(&self) -> u64 {
        self.inserted + self.folded + self.rejected
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.records += more.records;
        self.inserted += more.inserted;
        self.folded += more.folded;
        self.rejected_records += more.rejected_records;
        self.rejected += more.rejected;
    }
}

/// Counts by partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountsByPartition(BTreeMap<i32, Counts>);

impl CountsByPartition {
    pub(crate) fn of(&mut self, partition: i32) -> &mut Counts {
        self.0.entry(partition).or_default()
    }

    pub(crate) fn get(&self, partition: i32) -> Counts {
        self.0.get(&partition).copied().unwrap_or_default()
    }

    /// Takes a partition out.
    pub(crate) fn take(&mut self, partition: i32) -> Counts {
        self.0.remove(&partition).unwrap_or_default()
    }
}

impl AddAssign for CountsByPartition {
    fn add_assign(&mut self, more: Self) {
        for (partition, counts) in more.0 {
            *self.of(partition) += counts;
        }
    }
}

/// What has become of everything between two offsets of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionStats {
    /// Where counting began: at the partition's beginning, or where a group was put by hand or by another tool.
    pub since: i64,
    /// The first offset that is not settled.
    pub next: i64,
    /// What lies between.
    pub counts: Counts,
}

impl PartitionStats {
    /// Counting begins here.
    pub fn anew(next: i64) -> Self {
        Self { since: next, next, counts: Counts::default() }
    }

    /// Reads what stands beside a committed offset. What nobody here wrote, or wrote for another offset, says nothing: then
    /// counting begins anew at this one.
    pub fn found(metadata: &str, committed: i64) -> Self {
        Self::parse(metadata).filter(|found| found.next == committed).unwrap_or_else(|| Self::anew(committed))
    }

    fn parse(metadata: &str) -> Option<Self> {
        let mut words = metadata.split(' ').skip_while(|word| *word != WORD).skip(1);
        let mut number = || words.next()?.parse::<u64>().ok();
        let (since, next) = (i64::try_from(number()?).ok()?, i64::try_from(number()?).ok()?);
        let (records, inserted, folded) = (number()?, number()?, number()?);
        let counts = Counts { records, inserted, folded, rejected_records: number()?, rejected: number()? };
        let is_possible = records <= next.checked_sub(since)?.try_into().ok()? && counts.rejected_records <= records;
        (is_possible && words.next().is_none()).then_some(Self { since, next, counts })
    }

    /// What to write beside the offset; nothing where nothing is settled.
    pub(crate) fn noted(&self) -> String {
        let Self { since, next, counts } = self;
        let Counts { records, inserted, folded, rejected_records, rejected } = counts;
        match next == since {
            true => String::new(),
            false => format!("{WORD} {since} {next} {records} {inserted} {folded} {rejected_records} {rejected}"),
        }
    }

    /// Goes on to the record at `offset`. Further on is fine: the log has dropped what came before. Further back is a group that
    /// was put there, or a log that was made anew: counting begins anew.
    pub(crate) fn at(self, offset: i64) -> Self {
        if offset < self.next { Self::anew(offset) } else { Self { next: offset, ..self } }
    }

    /// After these records, of which the last stands before `next`.
    pub(crate) fn past(mut self, counts: Counts, next: i64) -> Self {
        self.counts += counts;
        Self { next, ..self }
    }

    /// Offsets without a record: what the log had dropped before anybody read it.
    pub fn missing(&self) -> u64 {
        u64::try_from(self.next - self.since).unwrap_or(0).saturating_sub(self.counts.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(records: u64) -> Counts {
        Counts { records, inserted: 3 * records, folded: records / 2, rejected_records: records / 3, rejected: records }
    }

    proptest! {
        #[test]
        fn what_is_noted_is_found_again_at_its_own_offset_and_at_no_other(
            (since, length) in (0..i64::MAX / 2, 1..i64::MAX / 2),
            records in 0..1_000_000_u64,
            other in any::<i64>(),
        ) {
            let settled = PartitionStats { since, next: since + length, counts: counts(records.min(length.unsigned_abs())) };
            let noted = settled.noted();
            prop_assert!(noted.len() < 300, "a broker takes 4,096 bytes");
            prop_assert_eq!(PartitionStats::found(&noted, settled.next), settled);
            prop_assert_eq!(PartitionStats::found(&format!("careful 2 77 {noted}"), settled.next), settled);
            if other != settled.next {
                prop_assert_eq!(PartitionStats::found(&noted, other), PartitionStats::anew(other));
            }
        }

        #[test]
        fn any_metadata_is_taken(metadata in "(settled )?([0-9a-z-]{0,20} ?){0,9}", offset in any::<i64>()) {
            PartitionStats::found(&metadata, offset);
        }
    }

    #[test]
    fn what_nobody_here_wrote_for_this_offset_says_nothing() {
        let foreign = [
            "",
            "careful 2 77",
            "decoding 0 0",
            "settled",
            "settled 0 9 9 9 0 0",
            "settled 0 9 9 9 0 0 0 0",
            "settled 0 9 10 9 0 0 0",
            "settled 0 9 1 1 0 2 0",
            "settled 10 9 0 0 0 0 0",
            "settled 0 9 9 -9 0 0 0",
            "settled 0 9 x 9 0 0 0",
        ];
        for metadata in foreign {
            assert_eq!(PartitionStats::found(metadata, 9), PartitionStats::anew(9), "{metadata}");
        }
    }

    #[test]
    fn the_log_may_drop_records_and_a_group_may_be_put_back() {
        let begun = PartitionStats::anew(4).past(counts(6), 10);
        assert_eq!((begun.since, begun.next, begun.missing()), (4, 10, 0));
        let cut = begun.at(15).past(counts(5), 20);
        assert_eq!((cut.since, cut.counts.records, cut.missing()), (4, 11, 5), "what was dropped unread shows");
        assert_eq!(cut.at(7), PartitionStats::anew(7), "what is read again is counted anew");
        assert_eq!(PartitionStats::anew(7).noted(), "", "and nothing is nothing");
    }
}
