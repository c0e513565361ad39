//! Records that kill the process: after unclean starts, the writer notes each record in `progress` before it decodes it.
//!
//! A record isn't blamed for a process that was killed while it waited: only decoding is noted, and a record is set aside
//! only when [`DEADLY`] writers have died while they decoded it.

/// Epochs without a complete block after which a writer is careful.
const UNCLEAN_STARTS: u64 = 3;
/// Number of records that a careful writer notes, more than a block usually has. If the deadly record comes later, a later writer
/// reaches it.
const CAREFUL_RECORDS: u32 = 5_000;
/// Deaths over one record after which it is set aside.
const DEADLY: u32 = 3;

/// A record that is being decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Writers that have died while they decoded it.
    pub(crate) deaths: u32,
}

/// How careful a writer is.
#[derive(Debug, Default)]
pub(super) struct Caution {
    /// Records that are still to be noted.
    records: u32,
    /// The record that the previous writer was decoding when it ended.
    last: Option<Suspect>,
}

/// What to do with a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advice {
    Decode,
    /// Note it in `progress`, then decode it.
    Note(Suspect),
    SetAside,
}

impl Caution {
    /// Creates the caution of a writer. `suspect` is the previous writer's last note.
    pub(super) fn new(epoch: u64, epoch_of_last_block: u64, suspect: Option<Suspect>) -> Self {
        let is_careful = suspect.is_some() || epoch.saturating_sub(epoch_of_last_block) > UNCLEAN_STARTS;
        let last = suspect.map(|suspect| Suspect { deaths: suspect.deaths.saturating_add(1), ..suspect });
        Self { records: if is_careful { CAREFUL_RECORDS } else { 0 }, last }
    }

    /// Returns what to do with the next record.
    pub(super) fn advise(&mut self, partition: i32, offset: i64) -> Advice {
        if self.records == 0 {
            return Advice::Decode;
        }
        self.records -= 1;
        let deaths = self.last.filter(|last| (last.partition, last.offset) == (partition, offset)).map_or(0, |last| last.deaths);
        if deaths >= DEADLY { Advice::SetAside } else { Advice::Note(Suspect { partition, offset, deaths }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadly_record_is_set_aside_and_its_neighbors_are_not() {
        let (mut noted, mut complete, mut epoch, mut set_aside, mut next) = (None, 0, 0, Vec::new(), 0);
        // A writer reads ten records per block and dies of the 15th.
        for _ in 0..20 {
            epoch += 1;
            let mut caution = Caution::new(epoch, complete, noted.take());
            'writer: while next < 30 {
                for offset in next..next + 10 {
                    match caution.advise(0, offset) {
                        Advice::SetAside => {
                            set_aside.push(offset);
                            continue;
                        }
                        Advice::Note(suspect) => noted = Some(suspect),
                        Advice::Decode => {}
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
    fn a_writer_that_completes_blocks_is_not_careful() {
        let mut caution = Caution::new(9, 6, None);
        assert_eq!(caution.advise(0, 1), Advice::Decode);
    }
}
