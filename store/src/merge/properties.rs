//! Random histories: after every block, the stored rows equal the model of all reports so far.

use super::{Changes, CurrentRows, keys_to_look_up, merge_with_limit};
use crate::reference_model::{self, Facts, Spec};
use crate::report::{Acceptance, Home, Observer, Report};
use crate::row::{EventPlace, EventRow, EventWrite, ReportPlace, ReportWrite, WrittenReport};
use crate::test_table::Table;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use schemas::event_key::EventKey;
use std::collections::{BTreeMap, BTreeSet};

const DAY_S: i64 = 86_400;
/// Number of observers in histories that don't test the limit.
const OBSERVERS: usize = 6;

/// Number of events, and of reports per observer.
type Totals = (usize, BTreeMap<Observer, usize>);

#[derive(Default)]
struct Store {
    events: Table<EventPlace, EventRow<Facts>>,
    reports: Table<ReportPlace, WrittenReport>,
    version: u64,
    merged: Vec<Report<Facts>>,
    most_observers: usize,
}

impl Store {
    fn row(&self, key: EventKey) -> Option<EventRow<Facts>> {
        self.events.live_rows().map(|(_, row)| row).find(|row| row.key == key).cloned()
    }

    /// Returns what merging these reports writes. An interrupted block wrote the rows of `reports` after version `since`.
    fn changes(&self, new: &[Report<Facts>], since: u64) -> Changes<Facts> {
        let mut groups: BTreeMap<EventKey, Vec<Report<Facts>>> = BTreeMap::new();
        new.iter().for_each(|report| groups.entry(report.group()).or_default().push(report.clone()));
        let interrupted: Vec<WrittenReport> = self.reports.newer_than(since).copied().collect();
        let mut changes = Changes::default();
        for (group, new) in groups {
            let joined = new[0].shared_key.and_then(|_| self.row(group));
            let keys = keys_to_look_up(joined.as_ref(), &new);
            let standalone = keys.into_iter().filter_map(|key| self.row(key)).collect();
            let current = CurrentRows { joined, standalone, interrupted: interrupted.clone(), ..CurrentRows::default() };
            changes.extend(merge_with_limit(&current, &new, self.most_observers));
        }
        changes
    }

    fn insert_reports(&mut self, writes: &[ReportWrite]) {
        for write in writes {
            let row = if let ReportWrite::Row(row) = write { Some(*row) } else { None };
            self.reports.insert(self.version, write.place(), row);
        }
    }

    /// Inserts the rows for the chosen partitions.
    fn insert_events(&mut self, writes: &[EventWrite<Facts>], is_chosen: impl Fn(Home) -> bool) {
        for write in writes.iter().filter(|write| is_chosen(write.place().home)) {
            let row = if let EventWrite::Row(row) = write { Some(row.clone()) } else { None };
            self.events.insert(self.version, write.place(), row);
        }
    }

    fn merge(&mut self, new: &[Report<Facts>], since: u64) {
        let changes = self.changes(new, since);
        assert_places_are_distinct(&changes);
        self.version += 1;
        self.insert_reports(&changes.reports);
        let before = self.totals();
        self.insert_events(&changes.events_first, |_| true);
        self.assert_same_figures(&before);
        self.insert_events(&changes.events, |_| true);
        self.merged.extend_from_slice(new);
    }

    /// Ignores reports without a correlation id, because their copies can have different roles.
    fn totals(&self) -> Totals {
        let mut observers = BTreeMap::new();
        let reports = self.events.live_rows().flat_map(|(_, row)| &row.reports);
        let reports = reports.filter(|report| Spec::has_shared_key(report.accepted.identity));
        reports.for_each(|report| *observers.entry(report.observer).or_default() += 1);
        (self.events.live_rows().count(), observers)
    }

    /// Asserts that the rows to insert first don't change a total, nor an observer's figure unless the limit leaves observers out.
    fn assert_same_figures(&self, before: &Totals) {
        let now = self.totals();
        assert_eq!(now.0, before.0);
        assert!(self.leaves_observers_out() || now.1 == before.1);
    }

    fn assert_none_fell(&self, before: &Totals) {
        let now = self.totals();
        assert!(before.0 <= now.0);
        let grew = |(observer, count)| now.1.get(observer) >= Some(count);
        assert!(self.leaves_observers_out() || before.1.iter().all(grew));
    }

    fn leaves_observers_out(&self) -> bool {
        self.most_observers < OBSERVERS
    }

    fn assert_equals_the_model(&self) {
        let expected = reference_model::events(self.merged.iter(), self.most_observers);
        assert_eq!(self.events.live_rows().count(), expected.len());
        for (place, row) in self.events.live_rows() {
            let reports = &expected[&row.key];
            let copies: Vec<_> = row.reports.iter().map(|report| (report.accepted, report.facts)).collect();
            assert_eq!(copies, reports.iter().map(|report| (report.accepted, report.facts)).collect::<Vec<_>>());
            assert_eq!((place.at_ms, &place.site), (reference_model::time_ms(reports), &reports[0].site));
        }
        let expected = reference_model::first_copies(self.merged.iter());
        assert_eq!(self.reports.live_rows().count(), expected.len());
        for (place, row) in self.reports.live_rows() {
            let first = expected[&row.place.identity];
            assert_eq!((place.at_ms, row.accepted), (first.at_ms, first.accepted));
        }
    }

    fn homes(&self) -> BTreeMap<EventKey, Home> {
        self.events.live_rows().map(|(_, row)| (row.key, row.home)).collect()
    }
}

fn assert_places_are_distinct(changes: &Changes<Facts>) {
    let events = changes.events_first.iter().chain(&changes.events);
    let places: BTreeSet<EventPlace> = events.map(EventWrite::place).collect();
    assert_eq!(places.len(), changes.events_first.len() + changes.events.len());
    let places: BTreeSet<ReportPlace> = changes.reports.iter().map(ReportWrite::place).collect();
    assert_eq!(places.len(), changes.reports.len());
}

fn specs(observers: u8, reports: usize) -> impl Strategy<Value = Vec<Spec>> {
    let accepted_s = prop_oneof![0..5_i64, (0..4_i64).prop_map(|n| n * 20 * DAY_S)];
    let at_s = select(vec![0, 0, 0, -3_600, -3 * DAY_S, 2 * 3_600]);
    let key = prop_oneof![4 => (0..3_u8).prop_map(Some), 1 => Just(None)];
    let spec = (key, 0..observers, 0..3_u8, accepted_s, at_s);
    let spec = spec.prop_map(|(key, observer, id, accepted_s, at_s)| Spec { key, observer, id, accepted_s, at_s });
    vec(spec, 1..reports)
}

/// Generates blocks of reports in order of arrival, with repeats.
fn histories(observers: usize, reports: usize) -> impl Strategy<Value = Vec<Vec<Spec>>> {
    (specs(observers as u8, reports), vec((any::<Index>(), any::<Index>()), 0..8), vec(1..9_usize, 1..30)).prop_map(
        |(mut specs, repeats, cuts)| {
            for (which, place) in repeats {
                specs.insert(place.index(specs.len()), specs[which.index(specs.len())]);
            }
            let mut specs = specs.into_iter();
            let blocks = cuts.into_iter().cycle().map(|cut| specs.by_ref().take(cut).collect::<Vec<_>>());
            blocks.take_while(|block| !block.is_empty()).collect()
        },
    )
}

/// Returns the reports in these blocks. Specs with the same identity and acceptance become one report.
fn reports(blocks: &[Vec<Spec>]) -> Vec<Vec<Report<Facts>>> {
    let mut seen: BTreeMap<Acceptance, Report<Facts>> = BTreeMap::new();
    let mut copies = 0..;
    let mut report = |spec: &Spec| {
        let report = spec.report(copies.next().unwrap());
        seen.entry(report.accepted).or_insert(report).clone()
    };
    blocks.iter().map(|block| block.iter().map(&mut report).collect()).collect()
}

fn run(blocks: &[Vec<Report<Facts>>], most_observers: usize) -> Store {
    let mut store = Store { most_observers, ..Store::default() };
    for block in blocks {
        let (homes, figures) = (store.homes(), store.totals());
        store.merge(block, store.version);
        store.assert_equals_the_model();
        assert!(store.homes().iter().all(|(key, home)| homes.get(key).is_none_or(|former| former == home)));
        store.assert_none_fell(&figures);
    }
    store
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn rows_equal_the_model_after_every_block(blocks in histories(OBSERVERS, 30), most_observers in 1..5_usize) {
        run(&reports(&blocks), most_observers);
    }

    #[test]
    fn merging_stored_reports_writes_nothing(blocks in histories(OBSERVERS, 30), which in vec(any::<Index>(), 1..9)) {
        let store = run(&reports(&blocks), 2);
        prop_assert!(store.changes(&store.merged, store.version).is_empty());
        let some: Vec<_> = which.iter().map(|which| store.merged[which.index(store.merged.len())].clone()).collect();
        prop_assert!(store.changes(&some, store.version).is_empty());
    }

    /// An insert into `events` stops after some partitions. The block is then repeated together with the next one.
    #[test]
    fn larger_block_completes_an_interrupted_one(
        blocks in histories(OBSERVERS, 30),
        cut in any::<Index>(),
        most_observers in select(vec![2, OBSERVERS]),
        has_first in any::<bool>(),
        chosen in any::<u32>(),
    ) {
        let mut blocks = reports(&blocks);
        let mut rest = blocks.split_off(cut.index(blocks.len()));
        let mut store = run(&blocks, most_observers);
        let (since, figures) = (store.version, store.totals());
        let changes = store.changes(&rest[0], since);
        store.version += 1;
        store.insert_reports(&changes.reports);
        let is_chosen = |home: Home| chosen >> (home.0 % 32) & 1 == 1;
        store.insert_events(&changes.events_first, |home| has_first || is_chosen(home));
        store.assert_same_figures(&figures);
        store.insert_events(&changes.events, |home| has_first && is_chosen(home));
        let figures = store.totals();
        let rest: Vec<Report<Facts>> = rest.drain(..).take(2).flatten().collect();
        store.merge(&rest, since);
        store.assert_equals_the_model();
        store.assert_none_fell(&figures);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn events_have_at_most_32_observers(blocks in histories(40, 120)) {
        let store = run(&reports(&blocks), super::MAX_OBSERVERS);
        prop_assert!(store.events.live_rows().all(|(_, row)| row.reports.len() <= super::MAX_OBSERVERS));
    }
}
