//! Blocks of records, and the statements that write them.

use super::server::{Divided, Progress, ReportInsert, Statement, StoredReport};
use super::simulated_log::{Log, Offsets, Origin, later};
use super::{Rule, Rules};
use crate::merge::{Changes, CurrentRows, keys_to_look_up, merge_with_limit};
use crate::reference_model::Facts;
use crate::report::{Home, Report};
use crate::row::{EventPlace, EventRow, EventWrite, ReportWrite, WrittenReport};
use rand::RngExt;
use rand::rngs::StdRng;
use schemas::event_key::EventKey;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The offsets that a block must reach if it has a report in a group.
pub(super) type RequiredOffsets = BTreeMap<EventKey, Offsets>;

/// The records between two positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) from: Offsets,
    pub(super) to: Offsets,
}

impl Block {
    /// Returns a block of random size with records of one month; `None` at the end of the log. While interrupted reports remain to be
    /// covered, the block contains all of them in its groups.
    pub(super) fn cut(
        log: &Log,
        from: &Offsets,
        (cover, needs): (&Offsets, &RequiredOffsets),
        (rules, random): (&Rules, &mut StdRng),
    ) -> Option<Self> {
        let is_covering = from.iter().zip(cover).any(|(from, cover)| from < cover);
        let (mut to, end, mut month) = (from.clone(), log.end(), None);
        for _ in 0..random.random_range(1..6) {
            let partition = random.random_range(0..to.len());
            if to[partition] < end[partition] {
                let own = log.record(Origin { partition, offset: to[partition] }).month();
                if *month.get_or_insert(own) == own {
                    to[partition] += 1;
                }
            }
        }
        if is_covering && rules.is_followed(Rule::KeepsGroupsWhole) {
            to = with_whole_groups(log, from, to, needs);
        }
        (to != *from).then(|| Self { from: from.clone(), to })
    }

    pub(super) fn reports<'a>(&self, log: &'a Log) -> impl Iterator<Item = (Origin, &'a Report<Facts>)> {
        log.reports(&self.from, &self.to)
    }
}

/// Extends a block until it has all interrupted reports in its groups.
fn with_whole_groups(log: &Log, from: &Offsets, mut to: Offsets, needs: &RequiredOffsets) -> Offsets {
    loop {
        let groups: BTreeSet<EventKey> = log.reports(from, &to).map(|(_, report)| report.group()).collect();
        let needed = groups.iter().filter_map(|group| needs.get(group)).fold(to.clone(), |to, needed| later(&to, needed));
        if needed == to {
            return to;
        }
        to = needed;
    }
}

/// A block that is being written.
pub(super) struct Attempt {
    pub(super) block: Block,
    /// Partitions in which the block changes an event.
    pub(super) homes: BTreeSet<(EventKey, Home)>,
}

/// A block and the current rows that are known so far.
pub(super) struct BlockLookup {
    pub(super) block: Block,
    pub(super) is_replay: bool,
    groups: BTreeMap<EventKey, Vec<Report<Facts>>>,
    pub(super) rows: BTreeMap<EventKey, EventRow<Facts>>,
    pub(super) absent: BTreeSet<EventKey>,
    pub(super) requested: BTreeSet<EventKey>,
}

impl BlockLookup {
    pub(super) fn new(block: Block, is_replay: bool, log: &Log) -> Self {
        let mut groups: BTreeMap<EventKey, Vec<Report<Facts>>> = BTreeMap::new();
        block.reports(log).for_each(|(_, report)| groups.entry(report.group()).or_default().push(report.clone()));
        Self { block, is_replay, groups, rows: BTreeMap::new(), absent: BTreeSet::new(), requested: BTreeSet::new() }
    }

    /// Returns the keys to look up next; empty when all are known.
    pub(super) fn next_keys(&self) -> Vec<EventKey> {
        let mut keys: Vec<EventKey> = Vec::new();
        for (group, new) in &self.groups {
            let is_shared = new[0].shared_key.is_some();
            keys.extend(is_shared.then_some(*group));
            keys.extend(keys_to_look_up(self.rows.get(group).filter(|_| is_shared), new));
        }
        keys.retain(|key| !self.rows.contains_key(key) && !self.absent.contains(key));
        keys
    }

    pub(super) fn merge(&self, interrupted: &[WrittenReport], first_month: Home, most_observers: usize) -> Changes<Facts> {
        let mut changes = Changes::default();
        for (group, new) in &self.groups {
            let joined = self.rows.get(group).filter(|_| new[0].shared_key.is_some()).cloned();
            let keys = keys_to_look_up(joined.as_ref(), new).into_iter();
            let standalone = keys.filter_map(|key| self.rows.get(&key)).cloned().collect();
            let current = CurrentRows { joined, standalone, interrupted: interrupted.to_vec(), first_month };
            changes.extend(merge_with_limit(&current, new, most_observers));
        }
        changes
    }
}

/// A block's statements, in order, and the resulting changes to the index.
pub(super) struct Plan {
    /// The last statement inserts into `progress`, except for a deletion.
    pub(super) statements: Vec<Rc<Statement>>,
    pub(super) events: Vec<EventWrite<Facts>>,
    pub(super) progress: Progress,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Block,
    Heartbeat,
    Deletion,
}

impl Plan {
    pub(super) fn heartbeat(progress: Progress) -> Self {
        let statements = vec![Rc::new(Statement::Progress(progress.clone()))];
        Self { statements, events: Vec::new(), progress, kind: Kind::Heartbeat }
    }

    /// Plans the deletion of months before the first one to keep: events with parts on both sides of it, then partitions.
    pub(super) fn deletion(first_month: Home, divided: Vec<Divided>, version: u64, rules: &Rules) -> Self {
        let block = Block { from: Offsets::new(), to: Offsets::new() };
        let attempt = Rc::new(Attempt { block, homes: BTreeSet::new() });
        let (events, reports): (Vec<EventPlace>, Vec<_>) = divided.into_iter().unzip();
        let reports =
            reports.into_iter().flatten().filter(|(_, survives)| !survives || !rules.is_followed(Rule::KeepsMovedReports));
        let reports = by_home(reports.map(|(place, _)| (place, None)).collect(), |(place, _)| place.home);
        let events = by_home(events.into_iter().map(EventWrite::Tombstone).collect(), |write| write.place().home);
        let mut statements = vec![Statement::Reports { version, parts: reports, attempt: attempt.clone() }];
        statements.push(Statement::Events { version, parts: events, attempt, is_first: false });
        statements.retain(|statement| statement.parts() > 0 && rules.is_followed(Rule::DeletesDivided));
        statements.extend([false, true].map(|is_events| Statement::Drop { first_month, is_events }));
        let statements = statements.into_iter().map(Rc::new).collect();
        Self { statements, events: Vec::new(), progress: Progress::default(), kind: Kind::Deletion }
    }

    pub(super) fn new(
        block: &Block,
        changes: Changes<Facts>,
        (version, progress): (u64, Progress),
        log: &Log,
        rules: &Rules,
    ) -> Result<Self, String> {
        let reports: Result<Vec<ReportInsert>, String> = changes.reports.iter().map(|write| insert(write, block, log)).collect();
        let (mut first, mut events) = (changes.events_first, changes.events);
        let all: Vec<EventWrite<Facts>> = first.iter().chain(&events).cloned().collect();
        let homes = all.iter().map(EventWrite::place).map(|place| (place.key, place.home)).collect();
        let attempt = Rc::new(Attempt { block: block.clone(), homes });
        if !rules.is_followed(Rule::WritesMovesFirst) {
            events.append(&mut first);
        }
        let parts = by_home(reports?, |(place, _)| place.home);
        let mut statements = vec![Statement::Reports { version, parts, attempt: attempt.clone() }];
        for (events, is_first) in [(first, true), (events, false)] {
            let parts = by_home(events, |write| write.place().home);
            statements.push(Statement::Events { version, parts, attempt: attempt.clone(), is_first });
        }
        if !rules.is_followed(Rule::WritesReportsFirst) {
            statements.rotate_left(1);
        }
        statements.retain(|statement| statement.parts() > 0);
        statements.push(Statement::Progress(progress.clone()));
        let statements = statements.into_iter().map(Rc::new).collect();
        Ok(Self { statements, events: all, progress, kind: Kind::Block })
    }
}

fn insert(write: &ReportWrite, block: &Block, log: &Log) -> Result<ReportInsert, String> {
    let ReportWrite::Row(written) = write else { return Ok((write.place(), None)) };
    let WrittenReport { place, accepted } = *written;
    let new = block.reports(log).find(|(_, report)| report.accepted == accepted);
    let (origin, report) = new.ok_or("a row of `reports` belongs to no new report")?;
    Ok((place, Some(StoredReport { place, accepted, facts: report.facts, origin })))
}

fn by_home<T>(rows: Vec<T>, home: impl Fn(&T) -> Home) -> Vec<Vec<T>> {
    let mut parts: BTreeMap<Home, Vec<T>> = BTreeMap::new();
    rows.into_iter().for_each(|row| parts.entry(home(&row)).or_default().push(row));
    parts.into_values().collect()
}
