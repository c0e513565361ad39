//! Compares what a read can see with the model, after every change.
//!
//! Acknowledged records (before the offsets in `progress`) must be visible. Started blocks may be visible too, partition by partition.

use super::blocks::{Attempt, Block};
use super::server::{Statement, Tables};
use super::simulated_log::{Log, Offsets, later};
use crate::reference_model::{self, Facts, Spec};
use crate::report::{Acceptance, Home, Observer, Report};
use schemas::event_key::EventKey;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A report group's events, each with its time and reports.
type Events = BTreeMap<EventKey, (i64, Vec<(Acceptance, Facts)>)>;

/// A result that a read may return.
struct PossibleResult {
    groups: BTreeMap<EventKey, Events>,
    first_copies: BTreeMap<EventKey, (Acceptance, Facts)>,
}

#[derive(Default)]
struct Figures {
    events: usize,
    observers: BTreeMap<Observer, usize>,
    reports: usize,
}

pub(super) struct Checks {
    /// Each report's group, by identity.
    groups: BTreeMap<EventKey, EventKey>,
    /// Blocks that may be partly visible but are not acknowledged.
    attempts: Vec<Rc<Attempt>>,
    acknowledged: Offsets,
    /// The acknowledged records, on their own and with each set of attempts. Empty if they must be computed again.
    candidates: Vec<PossibleResult>,
    figures: Figures,
    /// Groups with a report that was accepted in an expired month. Only two things are checked for their events: each has one row and, at
    /// the end, its reports' rows.
    expired: BTreeSet<EventKey>,
}

impl Checks {
    pub(super) fn new(log: &Log) -> Self {
        let (start, end) = (log.start(), log.end());
        let reports = log.reports(&start, &end).map(|(_, report)| report);
        let groups = reports.map(|report| (report.accepted.identity, report.group())).collect();
        let (attempts, candidates, figures) = (Vec::new(), Vec::new(), Figures::default());
        Self { groups, attempts, acknowledged: start, candidates, figures, expired: BTreeSet::new() }
    }

    /// Notes that an insert starts to take effect.
    pub(super) fn evaluated(&mut self, statement: &Statement) {
        let (Statement::Reports { attempt, .. } | Statement::Events { attempt, .. }) = statement else { return };
        let is_block = attempt.block.from != attempt.block.to;
        if is_block && !self.attempts.iter().any(|known| Rc::ptr_eq(known, attempt)) {
            self.candidates.clear();
            self.attempts.push(attempt.clone());
        }
    }

    /// Allows the deletion of months up to `last`.
    pub(super) fn expire(&mut self, log: &Log, last: Home) {
        let reports = log.reports(&log.start(), &log.end()).map(|(_, report)| report).collect::<Vec<_>>();
        let expired = reports.into_iter().filter(|report| Home::new(&report.accepted) <= last);
        self.expired = expired.map(Report::group).collect();
    }

    /// Returns the attempts that may be visible now, for a backup.
    pub(super) fn visible(&self) -> Vec<Rc<Attempt>> {
        let block = Block { from: self.acknowledged.clone(), to: self.acknowledged.clone() };
        let acknowledged = Rc::new(Attempt { block, homes: BTreeSet::new() });
        self.attempts.iter().cloned().chain([acknowledged]).collect()
    }

    /// Resets the checks to a backup that was made while `visible` could be seen.
    pub(super) fn restored(&mut self, acknowledged: &Offsets, visible: &[Rc<Attempt>]) {
        let since = |to: &Offsets| Block { from: acknowledged.clone(), to: to.clone() };
        let attempt = |attempt: &Rc<Attempt>| Attempt { block: since(&attempt.block.to), homes: attempt.homes.clone() };
        self.attempts = visible.iter().map(attempt).map(Rc::new).collect();
        self.candidates.clear();
        self.figures = Figures::default();
    }

    pub(super) fn check(&mut self, log: &Log, tables: &Tables) -> Result<(), String> {
        self.refresh(log, &tables.progress.next);
        self.check_events(tables)?;
        self.check_reports(tables)?;
        if self.expired.is_empty() { self.check_figures(log, tables) } else { Ok(()) }
    }

    /// Checks the final state, when everything is read and nothing is running.
    pub(super) fn check_end(&mut self, log: &Log, tables: &Tables) -> Result<(), String> {
        self.check(log, tables)?;
        check_reports_of_events(tables)?;
        let is_all = tables.progress.next == log.end() && self.attempts.is_empty();
        if is_all { Ok(()) } else { Err("records are not acknowledged at the end".to_owned()) }
    }

    fn refresh(&mut self, log: &Log, acknowledged: &Offsets) {
        let is_ahead = |attempt: &Rc<Attempt>| attempt.block.to.iter().zip(acknowledged).any(|(to, next)| to > next);
        if *acknowledged == self.acknowledged && !self.candidates.is_empty() {
            return;
        }
        self.acknowledged.clone_from(acknowledged);
        self.attempts.retain(is_ahead);
        let mut ends = vec![acknowledged.clone()];
        for attempt in &self.attempts {
            let with: Vec<Offsets> = ends.iter().map(|end| later(end, &attempt.block.to)).collect();
            ends.extend(with);
            ends[1..].sort_unstable();
            ends.dedup();
        }
        let start = log.start();
        let visible = |end: &Offsets| log.reports(&start, end).map(|(_, report)| report).collect::<Vec<_>>();
        self.candidates = ends.iter().map(|end| PossibleResult::new(&visible(end), log.most_observers)).collect();
    }

    fn check_events(&self, tables: &Tables) -> Result<(), String> {
        let (mut seen, mut groups) = (BTreeSet::new(), BTreeMap::<EventKey, Events>::new());
        for (place, row) in tables.events.live_rows() {
            if !seen.insert(row.key) {
                return Err(format!("two live rows of event {:x}", row.key.0));
            }
            let group = *self.groups.get(&row.key).unwrap_or(&row.key);
            let reports = row.reports.iter().map(|report| (report.accepted, report.facts)).collect();
            groups.entry(group).or_default().insert(row.key, (place.at_ms, reports));
        }
        let (nothing, unchanged, changed) = (Events::new(), BTreeSet::new(), self.changed_homes());
        let mut by_home: BTreeMap<Home, Vec<EventKey>> = BTreeMap::new();
        for group in self.groups.values().filter(|group| !self.expired.contains(*group)) {
            let visible = groups.get(group).unwrap_or(&nothing);
            let homes = changed.get(group).unwrap_or(&unchanged);
            let totals = self.candidates.iter().map(|candidate| candidate.events(group).map_or(0, Events::len));
            let is_expected = match homes.len() {
                // Some of its partitions may be visible and others not, so check only the number of events.
                2.. => (totals.clone().min()..=totals.max()).contains(&Some(visible.len())),
                _ => self.candidates.iter().any(|candidate| candidate.events(group).unwrap_or(&nothing) == visible),
            };
            if !is_expected {
                let expected = self.candidates.iter().map(|candidate| copies(candidate.events(group).unwrap_or(&nothing)));
                let expected: Vec<_> = expected.collect();
                return Err(format!("events of {:x} are {:?}, expected one of {expected:?}", group.0, copies(visible)));
            }
            if let (1, Some(home)) = (homes.len(), homes.first()) {
                by_home.entry(*home).or_default().push(*group);
            }
        }
        for (home, own) in by_home {
            let fits = |candidate: &PossibleResult| own.iter().all(|group| candidate.events(group) == groups.get(group));
            if !self.candidates.iter().any(fits) {
                return Err(format!("a block is partially visible in partition {}", home.0));
            }
        }
        Ok(())
    }

    /// Returns the partitions in which attempts change each group's events.
    fn changed_homes(&self) -> BTreeMap<EventKey, BTreeSet<Home>> {
        let mut homes: BTreeMap<EventKey, BTreeSet<Home>> = BTreeMap::new();
        for (key, home) in self.attempts.iter().flat_map(|attempt| &attempt.homes) {
            homes.entry(*self.groups.get(key).unwrap_or(key)).or_default().insert(*home);
        }
        homes
    }

    fn check_reports(&self, tables: &Tables) -> Result<(), String> {
        let mut visible = BTreeMap::new();
        for (place, row) in tables.reports.live_rows() {
            if visible.insert(place.identity, (row.accepted, row.facts)).is_some() {
                return Err(format!("two live rows of report {:x}", place.identity.0));
            }
        }
        for (identity, first) in visible.iter().filter(|(identity, _)| !self.is_expired(identity)) {
            if !self.candidates.iter().any(|candidate| candidate.first_copies.get(identity) == Some(first)) {
                return Err(format!("report {:x} is not its first copy", identity.0));
            }
        }
        let acknowledged = self.candidates[0].first_copies.keys();
        let shown = tables.events.live_rows().flat_map(|(_, row)| &row.reports).map(|report| &report.accepted.identity);
        let missing = acknowledged.chain(shown).find(|identity| !visible.contains_key(*identity) && !self.is_expired(identity));
        missing.map_or(Ok(()), |identity| Err(format!("report {:x} is missing", identity.0)))
    }

    fn is_expired(&self, identity: &EventKey) -> bool {
        self.groups.get(identity).is_some_and(|group| self.expired.contains(group))
    }

    fn check_figures(&mut self, log: &Log, tables: &Tables) -> Result<(), String> {
        let mut now = Figures { reports: tables.reports.live_rows().count(), ..Figures::default() };
        for (_, row) in tables.events.live_rows() {
            now.events += 1;
            // Copies without a correlation id can have different roles. The first accepted one counts.
            for report in row.reports.iter().filter(|report| Spec::has_shared_key(report.accepted.identity)) {
                *now.observers.entry(report.observer).or_default() += 1;
            }
        }
        let before = std::mem::take(&mut self.figures);
        let is_less = |(observer, count)| now.observers.get(observer) < Some(count);
        // If the limit leaves observers out, two observers' reports can change places.
        let fell = log.most_observers >= 4 && before.observers.iter().any(is_less);
        if fell || now.events < before.events || now.reports < before.reports {
            return Err("a count decreased".to_owned());
        }
        self.figures = now;
        Ok(())
    }
}

/// Checks that every report belongs to one event, and that every event has its reports.
fn check_reports_of_events(tables: &Tables) -> Result<(), String> {
    let of_events = tables.events.live_rows().flat_map(|(_, row)| &row.reports).map(|report| (report.place(), report.accepted));
    let named: BTreeSet<_> = of_events.collect();
    let stored: BTreeSet<_> = tables.reports.live_rows().map(|(place, row)| (*place, row.accepted)).collect();
    let different = named.symmetric_difference(&stored).next();
    different.map_or(Ok(()), |(place, _)| Err(format!("report {:x} has no event or no row", place.identity.0)))
}

/// Returns the copies in each event, for messages.
fn copies(events: &Events) -> Vec<Vec<Facts>> {
    events.values().map(|(_, reports)| reports.iter().map(|(_, facts)| *facts).collect()).collect()
}

impl PossibleResult {
    fn new(reports: &[&Report<Facts>], most_observers: usize) -> Self {
        let mut groups: BTreeMap<EventKey, Events> = BTreeMap::new();
        for (key, reports) in reference_model::events(reports.iter().copied(), most_observers) {
            let copies = reports.iter().map(|report| (report.accepted, report.facts)).collect();
            groups.entry(reports[0].group()).or_default().insert(key, (reference_model::time_ms(&reports), copies));
        }
        let first_copies = reference_model::first_copies(reports.iter().copied()).into_iter();
        Self { groups, first_copies: first_copies.map(|(key, report)| (key, (report.accepted, report.facts))).collect() }
    }

    fn events(&self, group: &EventKey) -> Option<&Events> {
        self.groups.get(group)
    }
}
