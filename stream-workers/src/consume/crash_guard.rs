//! Records that kill the process (threat F22): what is remembered of them beside the committed offset, and how far one
//! may go at a time. Pure.
//!
//! Must not blame a record for a process that was killed while it waited: only decoding is marked, and a record is set
//! aside only when three processes died while they decoded it alone.

use super::dead_letter::QUARANTINED;

/// Records of a partition decoded at a time once a process has died decoding there.
const FEW: usize = 400;
/// Offsets after a death that are read with caution: more than a block holds.
const FEW_UNTIL: i64 = 100_000;
/// Deaths after which every record is decoded alone.
const ALONE_AFTER: u32 = 2;
/// Deaths over one record alone after which it is set aside.
const DEADLY: u32 = 3;

/// What the metadata of a committed offset says: how many processes died decoding what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CrashGuard {
    deaths: u32,
    /// The offset where caution ends.
    until: i64,
}

impl CrashGuard {
    /// Reads what an earlier process left at its committed offset. Whoever was decoding then is dead now.
    pub(crate) fn found(metadata: &str, offset: i64) -> Self {
        let mut words = metadata.split(' ');
        let (word, mut number) = (words.next(), || words.next()?.parse::<i64>().ok());
        let (Some(deaths), Some(until)) = (number().and_then(|deaths| u32::try_from(deaths).ok()), number()) else {
            return Self::default();
        };
        let left = Self { deaths, until };
        match word {
            Some("decoding") => left.after_a_death(offset),
            Some("careful") => left,
            _ => Self::default(),
        }
    }

    fn after_a_death(self, offset: i64) -> Self {
        let deaths = self.deaths.saturating_add(1);
        let until = match deaths {
            1 => offset + FEW_UNTIL,
            ALONE_AFTER => offset + i64::try_from(FEW).expect("the constant is small"),
            _ => self.until,
        };
        Self { deaths, until }
    }

    /// What to commit before decoding, beside the offset of the first record to be decoded.
    pub(crate) fn decoding(self) -> String {
        format!("decoding {} {}", self.deaths, self.until)
    }

    /// What to commit once they are decoded, and with every offset that follows.
    pub(crate) fn decoded(self) -> String {
        if self.deaths == 0 { String::new() } else { format!("careful {} {}", self.deaths, self.until) }
    }

    pub(crate) fn is_needed(self) -> bool {
        self.deaths > 0
    }

    /// How many records of the partition a block may hold.
    pub(crate) fn most_records(self) -> usize {
        match self.deaths {
            0 => usize::MAX,
            1 => FEW,
            _ => 1,
        }
    }

    /// Why the next record must not be decoded again.
    pub(crate) fn quarantines(self) -> Option<String> {
        (self.deaths >= ALONE_AFTER + DEADLY).then(|| format!("{QUARANTINED}: {DEADLY} processes died while they decoded it"))
    }

    /// What holds from `next` on, everything before it being done.
    pub(crate) fn past(self, next: i64) -> Self {
        if next >= self.until { Self::default() } else { Self { deaths: self.deaths.min(ALONE_AFTER), ..self } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lives through processes that start at the committed offset, each dying over the poison; returns how many died,
    /// and what was set aside.
    fn live(records: i64, poison: i64, block: usize) -> (u32, Vec<i64>) {
        let (mut committed, mut metadata, mut deaths, mut quarantined) = (0, String::new(), 0, Vec::new());
        'processes: loop {
            let mut crash_guard = CrashGuard::found(&metadata, committed);
            let mut is_fresh = true;
            while committed < records {
                if crash_guard.quarantines().is_some() {
                    quarantined.push(committed);
                    committed += 1;
                } else {
                    let most = i64::try_from(crash_guard.most_records().min(block)).unwrap();
                    let next = records.min(committed + most);
                    if is_fresh || crash_guard.is_needed() {
                        metadata = crash_guard.decoding();
                    }
                    if (committed..next).contains(&poison) {
                        deaths += 1;
                        continue 'processes;
                    }
                    committed = next;
                }
                is_fresh = false;
                crash_guard = crash_guard.past(committed);
                metadata = crash_guard.decoded();
            }
            return (deaths, quarantined);
        }
    }

    proptest! {
        #[test]
        fn a_record_that_kills_is_found_among_any_others_and_set_aside_alone(
            (records, poison) in (1..5_000_i64).prop_flat_map(|records| (Just(records), 0..records)),
            block in 1..3_000_usize,
        ) {
            let (deaths, quarantined) = live(records, poison, block);
            prop_assert_eq!(quarantined, vec![poison]);
            prop_assert!(deaths <= 6, "{} processes died", deaths);
        }
    }

    #[test]
    fn a_process_killed_while_it_waits_leaves_no_suspicion() {
        let calm = CrashGuard::default();
        assert_eq!(CrashGuard::found(&calm.decoded(), 7), calm);
        let careful = CrashGuard::found(&calm.decoding(), 7);
        assert_eq!(careful.most_records(), FEW);
        for _ in 0..10 {
            assert_eq!(CrashGuard::found(&careful.decoded(), 7), careful, "however many die after they have decoded");
        }
    }

    #[test]
    fn what_nobody_here_wrote_is_no_suspicion() {
        for foreign in ["", "decoding", "decoding x y", "decoding -1 5", "other 3 4"] {
            assert!(!CrashGuard::found(foreign, 7).is_needed(), "{foreign}");
        }
    }
}
