//! Handles records that block the log: they crash the process, or their rows can't be merged or inserted.
//!
//! After unclean starts, the writer notes each record in `progress` before decoding it. Only decoding is noted, so a record isn't blamed
//! for a process that was killed while waiting. A record becomes a dead letter after [`MAX_DEATHS`] writers have crashed while decoding it.
//!
//! If a block can't be merged or inserted, the writer rejects the records that make it fail (`culprits`). If no such record is known, for
//! example because ClickHouse lacks memory, it reads smaller blocks ([`BlockLimits`]).

use super::statements::FailedBlock;
use crate::consume::Origin;
use std::collections::HashMap;

/// Number of process starts without a complete block after which a writer is careful.
const UNCLEAN_STARTS: u64 = 3;
/// Number of records that a careful writer notes, which is more than a block usually has. If a deadly record comes later, a later writer
/// reaches it.
const CAREFUL_RECORDS: u32 = 5_000;
/// Number of crashes after which a record is rejected.
const MAX_DEATHS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Number of writers that crashed while decoding it.
    pub(crate) deaths: u32,
}

#[derive(Debug, Default)]
pub(super) struct DecodeCaution {
    /// Number of records still to be noted.
    records: u32,
    /// The record that the previous writer was decoding when it ended.
    last: Option<Suspect>,
}

/// What to do with a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// The record belongs to other shards.
    Skip,
    Decode,
    /// Note it in `progress`, then decode it.
    Note(Suspect),
    Reject,
}

impl DecodeCaution {
    /// Creates the caution for a new writer. `starts` is the number of processes, including this one, that have become the writer since a
    /// block was completed or an epoch was released. `suspect` is the previous writer's last note.
    pub(super) fn new(starts: u64, suspect: Option<Suspect>) -> Self {
        let is_careful = suspect.is_some() || starts > UNCLEAN_STARTS;
        let last = suspect.map(|suspect| Suspect { deaths: suspect.deaths.saturating_add(1), ..suspect });
        Self { records: if is_careful { CAREFUL_RECORDS } else { 0 }, last }
    }

    /// Returns the note that a stopped writer leaves: the one that it found, because a stop isn't a crash.
    pub(super) fn note_at_stop(&self) -> Option<Suspect> {
        self.last.map(|last| Suspect { deaths: last.deaths.saturating_sub(1), ..last })
    }

    /// Returns whether all further records are decoded without a note.
    pub(super) fn is_over(&self) -> bool {
        self.records == 0
    }

    pub(super) fn advise(&mut self, partition: i32, offset: i64) -> Advice {
        if self.records == 0 {
            return Advice::Decode;
        }
        self.records -= 1;
        let deaths = self.last.filter(|last| (last.partition, last.offset) == (partition, offset)).map_or(0, |last| last.deaths);
        if deaths >= MAX_DEATHS { Advice::Reject } else { Advice::Note(Suspect { partition, offset, deaths }) }
    }
}

/// A limit that grows beyond this number of records is removed.
const UNLIMITED: usize = 100_000;

/// What the writer has learned from failed blocks.
#[derive(Debug, Default)]
pub(super) struct BlockLimits {
    /// Maximum records of a block, if limited.
    most_records: Option<usize>,
    rejected: HashMap<Origin, String>,
}

impl BlockLimits {
    /// Handles a failed block. Rejects its culprits. If they are unknown, the next block is smaller, and a record is rejected only if it
    /// was alone in the block and the server rejected its values. A replay has no records, and counts its failures itself.
    pub(super) fn failed(&mut self, block: &FailedBlock) {
        let FailedBlock { reason, is_data, records, culprits, .. } = block;
        self.rejected.extend(culprits.iter().cloned());
        match records.as_slice() {
            _ if !culprits.is_empty() => {}
            [] => {}
            [record] if *is_data => drop(self.rejected.insert(*record, reason.clone())),
            // A block can have more records than allowed, because an interrupted block wrote reports of the same events.
            _ => self.most_records = Some((records.len() / 2).min(self.most_records.unwrap_or(UNLIMITED) / 2).max(1)),
        }
    }

    pub(super) fn stored(&mut self) {
        self.most_records = self.most_records.map(|most| most * 2).filter(|most| *most <= UNLIMITED);
    }

    /// Returns the maximum number of records of a block.
    pub(super) fn most_records(&self) -> usize {
        self.most_records.unwrap_or(usize::MAX)
    }

    /// Returns the reason why a record is rejected; `None` if it isn't.
    pub(super) fn reason(&self, record: Origin) -> Option<String> {
        self.rejected.get(&record).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn failed(offsets: Range<i64>, is_data: bool) -> FailedBlock {
        let records = offsets.map(|offset| (0, offset)).collect();
        FailedBlock { reason: "refused".to_owned(), is_data, records, ..FailedBlock::default() }
    }

    #[test]
    fn failed_block_halves_the_limit() {
        let (mut narrowing, mut limits) = (BlockLimits::default(), Vec::new());
        for end in [41, 20, 18, 18, 18, 18] {
            narrowing.failed(&failed(0..end, true));
            limits.push(narrowing.most_records());
        }
        assert_eq!(limits, [20, 10, 5, 2, 1, 1]);
        assert!((0..41).all(|offset| narrowing.reason((0, offset)).is_none()), "any of them may be the cause");
        narrowing.failed(&failed(7..8, true));
        assert_eq!(narrowing.reason((0, 7)).as_deref(), Some("refused"));
    }

    #[test]
    fn known_bad_records_do_not_limit_blocks() {
        let mut narrowing = BlockLimits::default();
        narrowing.failed(&FailedBlock { culprits: vec![((0, 3), "bad".to_owned())], ..failed(0..41, true) });
        assert_eq!((narrowing.most_records(), narrowing.reason((0, 3)).as_deref()), (usize::MAX, Some("bad")));
        assert_eq!(narrowing.reason((0, 4)), None);
    }

    #[test]
    fn out_of_memory_does_not_reject_records() {
        let mut narrowing = BlockLimits::default();
        for _ in 0..10 {
            narrowing.failed(&failed(1..2, false));
        }
        assert_eq!((narrowing.most_records(), narrowing.reason((0, 1))), (1, None));
    }

    #[test]
    fn rejects_a_crashing_record_but_not_its_neighbors() {
        let (mut noted, mut complete, mut epoch, mut set_aside, mut next) = (None, 0, 0, Vec::new(), 0);
        // A writer reads ten records per block and crashes at record 15.
        for _ in 0..20 {
            epoch += 1;
            let mut caution = DecodeCaution::new(epoch - complete, noted.take());
            'writer: while next < 30 {
                for offset in next..next + 10 {
                    match caution.advise(0, offset) {
                        Advice::Reject => {
                            set_aside.push(offset);
                            continue;
                        }
                        Advice::Note(suspect) => noted = Some(suspect),
                        Advice::Decode | Advice::Skip => {}
                    }
                    if offset == 15 {
                        break 'writer;
                    }
                }
                (noted, complete, next) = (None, epoch, next + 10);
            }
        }
        assert_eq!((set_aside, next), (vec![15], 30));
    }

    #[test]
    fn graceful_stops_do_not_count_as_crashes() {
        let (mut noted, mut aside) = (Some(Suspect { partition: 0, offset: 7, deaths: MAX_DEATHS - 2 }), 0);
        for _ in 0..9 {
            let mut caution = DecodeCaution::new(0, noted);
            aside += u32::from(caution.advise(0, 7) == Advice::Reject);
            noted = caution.note_at_stop();
        }
        assert_eq!((aside, noted.map(|suspect| suspect.deaths)), (0, Some(MAX_DEATHS - 2)));
    }

    #[test]
    fn completed_blocks_reset_the_limit() {
        let mut caution = DecodeCaution::new(3, None);
        assert_eq!(caution.advise(0, 1), Advice::Decode);
    }
}
