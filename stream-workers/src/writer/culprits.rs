//! Finds the records that make a block fail, before anything else is stored.
//!
//! It tries the block's first records in offset order: merges their reports again, and inserts the rows that ClickHouse rejected as deleted
//! rows with version 0. Such a row never replaces another one, and reads don't return it. Rows of failed fetches depend only on their
//! records, so those of good records are inserted unchanged.

use super::batch::Batch;
use super::current_rows::GatheredRows;
use super::progress::NextOffsets;
use super::rows::trial_rows;
use super::state::State;
use super::statements::{FailedBlock, Server, Stage, WriterExit};
use crate::consume::Origin;
use crate::record::decode::guarded;

/// Returns the records that make a batch fail at a stage, with the reasons. If records fail only together, returns the last of them. Empty
/// if no trial fails.
///
/// # Errors
///
/// Fails if a trial fails for a reason other than its values.
pub(super) async fn find(
    stage: Stage,
    mut batch: Batch,
    (state, server): (&State, &Server),
) -> Result<Vec<(Origin, String)>, WriterExit> {
    // A replay has no records, and counts its failures itself.
    if stage == Stage::Other || batch.records.is_empty() {
        return Ok(Vec::new());
    }
    let mut search = Search::new(batch.sort_by_record());
    while let Some(last) = search.last() {
        let failure = try_up_to(last, stage, &batch, (state, server)).await?;
        if let Some(culprit) = search.tried(failure) {
            batch.remove(culprit);
        }
    }
    Ok(search.culprits)
}

/// Returns the reason why the records up to this one fail; `None` if they don't.
async fn try_up_to(
    last: Origin,
    stage: Stage,
    batch: &Batch,
    (state, server): (&State, &Server),
) -> Result<Option<String>, WriterExit> {
    let rows = if stage == Stage::FailedFetches {
        batch.failed_fetches_up_to(last)
    } else {
        let reports = batch.reports_up_to(last);
        let Some(gathered) = GatheredRows::for_reports(reports, &NextOffsets::new(), (state, server, None)).await? else {
            return Ok(None);
        };
        match guarded(|| Ok(trial_rows(stage, reports, &gathered, state))) {
            Ok(rows) => rows,
            Err(reason) => return Ok(Some(reason)),
        }
    };
    let Some(sql) = insert(stage).filter(|_| !rows.0.is_empty()) else { return Ok(None) };
    let epoch = [("epoch", state.epoch.number.to_string())];
    match server.run_until_done(&state.epoch, sql, &epoch, &rows.0).await {
        Ok(()) => Ok(None),
        Err(WriterExit::Block(FailedBlock { is_data: true, reason, .. })) => Ok(Some(reason)),
        Err(ended) => Err(ended),
    }
}

fn insert(stage: Stage) -> Option<&'static str> {
    match stage {
        Stage::Reports => Some(include_str!("sql/insert_reports.sql")),
        Stage::Events => Some(include_str!("sql/insert_events.sql")),
        Stage::FailedFetches => Some(include_str!("sql/insert_failed_fetches.sql")),
        Stage::Merge | Stage::Other => None,
    }
}

/// A binary search for the first record that fails together with the records before it, repeated without that record until all others pass.
#[derive(Debug)]
struct Search {
    /// The records without the culprits found so far.
    records: Vec<Origin>,
    /// This many of the first records pass.
    passed: usize,
    /// This many of the first records fail; `None` if no failure is known.
    failed: Option<usize>,
    culprits: Vec<(Origin, String)>,
}

impl Search {
    fn new(records: Vec<Origin>) -> Self {
        Self { records, passed: 0, failed: None, culprits: Vec::new() }
    }

    /// Returns how many of the first records to try next; `None` if the search is over.
    fn length(&self) -> Option<usize> {
        match self.failed {
            _ if self.passed >= self.records.len() => None,
            None => Some(self.records.len()),
            // Try the same records again. If they pass, the failure wasn't caused by a record.
            Some(failed) if failed == self.passed + 1 => Some(failed),
            Some(failed) => Some(self.passed.midpoint(failed)),
        }
    }

    /// Returns the last of the records to try next.
    fn last(&self) -> Option<Origin> {
        Some(self.records[self.length()? - 1])
    }

    /// Records a trial's result: the reason for a failure, or that the records passed. Returns the culprit if it is found.
    fn tried(&mut self, failure: Option<String>) -> Option<Origin> {
        let length = self.length()?;
        match (failure, self.failed == Some(length)) {
            (Some(reason), true) => {
                let culprit = self.records.remove(length - 1);
                self.culprits.push((culprit, reason));
                self.failed = None;
                return Some(culprit);
            }
            (Some(_), false) => self.failed = Some(length),
            (None, false) if self.failed.is_some() => self.passed = length,
            // All pass, or the failure did not repeat.
            (None, _) => self.passed = self.records.len(),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::interrupted_rows::{Interrupted, InterruptedRows};
    use super::super::poison_records::BlockLimits;
    use super::*;
    use proptest::prelude::*;
    use schemas::event_key::EventKey;
    use schemas::ids::OrgId;
    use std::collections::{BTreeMap, BTreeSet};
    use store::report::{Acceptance, Home};
    use store::row::{ReportPlace, WrittenReport};
    use uuid::Uuid;

    fn search(records: &[Origin], mut fails: impl FnMut(&[Origin]) -> bool) -> Vec<Origin> {
        let mut search = Search::new(records.to_vec());
        while let Some(length) = search.length() {
            let failure = fails(&search.records[..length]).then(String::new);
            search.tried(failure);
        }
        search.culprits.into_iter().map(|(record, _)| record).collect()
    }

    #[test]
    fn temporary_failures_do_not_reject_records() {
        let records: Vec<Origin> = (0..40).map(|offset| (0, offset)).collect();
        // Trials of 40, 20, 10, 5 and 2 records, of one record, and of the same record again.
        for failures in 0..=7 {
            let mut trials = 0;
            let found = search(&records, |_| {
                trials += 1;
                trials <= failures
            });
            assert_eq!(found.len(), usize::from(failures == 7), "{failures} trials fail");
        }
    }

    /// Simulates a writer that reads blocks from one partition and whose `events` are rejected after their `reports` were inserted.
    struct Ingestion {
        /// The shared key of each record's report.
        groups: Vec<u128>,
        bad: BTreeSet<usize>,
        /// Whether trials find the culprits.
        can_try: bool,
        written: BTreeMap<usize, Interrupted>,
        cover: InterruptedRows,
        narrowing: BlockLimits,
        next: usize,
        letters: BTreeSet<usize>,
        failures: usize,
    }

    impl Ingestion {
        fn origin(record: usize) -> Origin {
            (0, i64::try_from(record).unwrap())
        }

        fn row(&self, record: usize) -> Interrupted {
            let (identity, origin) = (EventKey(record as u128 + 1_000), Self::origin(record));
            let place = ReportPlace { home: Home(202_611), org: OrgId(Uuid::nil()), at_ms: 0, identity };
            let written = WrittenReport { place, accepted: Acceptance { at_us: 0, place: 0, identity } };
            Interrupted { written, shared_key: Some(EventKey(self.groups[record])), site: "".into(), issuer: None, origin }
        }

        fn is_aside(&self, record: usize) -> bool {
            self.narrowing.reason(Self::origin(record)).is_some()
        }

        /// Returns the records for a block: at least `most` of them, if the log has that many and no failure limits their number.
        fn read(&mut self, most: usize) -> std::ops::Range<usize> {
            let (mut end, most) = (self.next, most.min(self.narrowing.most_records()));
            while end < self.groups.len() {
                let group = (!self.is_aside(end)).then_some(EventKey(self.groups[end]));
                self.cover.read(Self::origin(end), group.into_iter());
                end += 1;
                if end - self.next >= most && self.cover.may_end(&[Self::origin(end)].into()) {
                    break;
                }
            }
            self.next..end
        }

        fn step(&mut self, most: usize) {
            let block = self.read(most);
            let stored: Vec<usize> = block.clone().filter(|record| !self.is_aside(*record)).collect();
            let aside: Vec<usize> = block.clone().filter(|record| self.is_aside(*record)).collect();
            self.letters.extend(aside);
            if stored.iter().any(|record| self.bad.contains(record)) {
                self.failures += 1;
                let origins: Vec<Origin> = stored.iter().map(|record| Self::origin(*record)).collect();
                let is_bad = |origin: &Origin| self.bad.contains(&usize::try_from(origin.1).unwrap());
                let culprits = if self.can_try { search(&origins, |tried| tried.iter().any(is_bad)) } else { Vec::new() };
                let culprits = culprits.into_iter().map(|culprit| (culprit, "refused".to_owned())).collect();
                let records = block.map(Self::origin).collect();
                let failed = FailedBlock { reason: "refused".to_owned(), is_data: true, records, culprits, stage: Stage::Events };
                self.narrowing.failed(&failed);
                let rows: Vec<_> = stored.into_iter().map(|record| (record, self.row(record))).collect();
                self.written.extend(rows);
                self.cover = InterruptedRows::new(self.written.values().cloned().collect());
                return;
            }
            self.next = block.end;
            self.cover.stored(&[Self::origin(self.next)].into());
            if self.cover.is_empty() {
                self.written.clear();
            }
            self.narrowing.stored();
        }
    }

    fn ingestion(groups: &[u128], bad: &BTreeSet<usize>, can_try: bool) -> Ingestion {
        let bad = bad.iter().copied().filter(|record| *record < groups.len()).collect();
        Ingestion {
            groups: groups.to_vec(),
            bad,
            can_try,
            written: BTreeMap::new(),
            cover: InterruptedRows::default(),
            narrowing: BlockLimits::default(),
            next: 0,
            letters: BTreeSet::new(),
            failures: 0,
        }
    }

    proptest! {
        /// A block ends where its groups' interrupted reports allow it, so it can contain any other records.
        #[test]
        fn rejects_only_the_bad_records(
            groups in prop::collection::vec(0_u128..12, 1..80),
            bad in prop::collection::btree_set(0_usize..80, 0..8),
            sizes in prop::collection::vec(1_usize..60, 400),
        ) {
            let mut run = ingestion(&groups, &bad, true);
            for size in sizes {
                run.step(size);
                prop_assert!(run.letters.is_subset(&run.bad), "{:?} of {:?}", run.letters, run.bad);
            }
            prop_assert_eq!(run.next, groups.len());
            prop_assert_eq!(&run.letters, &run.bad);
            prop_assert!(run.failures <= run.bad.len(), "one failure finds all culprits of a block");
        }

        /// Without trials, a record is rejected only if it is alone in its block.
        #[test]
        fn does_not_reject_records_without_a_trial(
            groups in prop::collection::vec(0_u128..12, 1..80),
            bad in prop::collection::btree_set(0_usize..80, 0..8),
            sizes in prop::collection::vec(1_usize..60, 400),
        ) {
            let mut run = ingestion(&groups, &bad, false);
            sizes.into_iter().for_each(|size| run.step(size));
            prop_assert!(run.letters.is_subset(&run.bad), "{:?} of {:?}", run.letters, run.bad);
        }

        /// The result is the same as trying the records one by one.
        #[test]
        fn rejects_the_last_record_if_several_fail_together(
            count in 1_i64..60,
            pairs in prop::collection::vec((0_i64..60, 0_i64..60), 0..6),
        ) {
            let records: Vec<Origin> = (0..count).map(|offset| (0, offset)).collect();
            let fails = |tried: &[Origin]| pairs.iter().any(|(one, other)| tried.contains(&(0, *one)) && tried.contains(&(0, *other)));
            let (mut kept, mut expected) = (Vec::new(), Vec::new());
            for record in &records {
                kept.push(*record);
                if fails(&kept) {
                    expected.extend(kept.pop());
                }
            }
            prop_assert_eq!(search(&records, fails), expected);
        }
    }
}
