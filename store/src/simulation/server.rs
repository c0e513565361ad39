//! Simulates the parts of a ClickHouse server that the protocol depends on.
//!
//! A statement is in the process list from before its condition is evaluated until its last partition is visible, and the server doesn't
//! run two statements with the same query id at a time. `writer::self_test` in stream-workers checks this assumption on a real server.

use super::blocks::Attempt;
use super::simulated_log::{Offsets, Origin};
use crate::reference_model::Facts;
use crate::report::{Acceptance, Home};
use crate::row::{Entry, EventPlace, EventRow, EventWrite, ReportPlace};
use crate::test_table::Table;
use rand::RngExt;
use rand::rngs::StdRng;
use schemas::event_key::EventKey;
use std::collections::BTreeSet;
use std::rc::Rc;

pub(super) type Slot = u64;

/// A row of `writers`: an epoch's owner and the query id of its inserts. The row of epoch 0 has the query id of all claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) epoch: u64,
    pub(super) writer: usize,
    pub(super) slot: Slot,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) epoch: u64,
    /// Number of the row within its epoch.
    pub(super) heartbeat: u64,
    pub(super) completed: u64,
    /// The next records to read. All earlier ones are acknowledged.
    pub(super) next: Offsets,
}

impl Progress {
    /// Returns the sort key of the row; the largest row is the current one.
    fn order(&self) -> (u64, u64) {
        (self.epoch, self.heartbeat)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StoredReport {
    pub(super) place: ReportPlace,
    pub(super) accepted: Acceptance,
    pub(super) facts: Facts,
    pub(super) origin: Origin,
}

#[derive(Clone)]
pub(super) struct Tables {
    pub(super) writers: Vec<Claim>,
    pub(super) progress: Progress,
    pub(super) events: Table<EventPlace, EventRow<Facts>>,
    pub(super) reports: Table<ReportPlace, StoredReport>,
}

/// A row to insert into `reports`. A tombstone if it has no content.
pub(super) type ReportInsert = (ReportPlace, Option<StoredReport>);

pub(super) enum Statement {
    /// Claims an epoch if the highest one is as expected.
    Claim {
        expected: u64,
        claim: Claim,
    },
    Reports {
        version: u64,
        parts: Vec<Vec<ReportInsert>>,
        attempt: Rc<Attempt>,
    },
    /// `is_first` marks the rows that other partitions depend on.
    Events {
        version: u64,
        parts: Vec<Vec<EventWrite<Facts>>>,
        attempt: Rc<Attempt>,
        is_first: bool,
    },
    Progress(Progress),
    /// Succeeds if no statement runs under its query id.
    Probe,
    ReadHead,
    ReadState,
    /// Reads the places of some of the keys.
    ReadIndex {
        chunk: u128,
        chunks: u128,
    },
    ReadRows(Vec<EventPlace>),
    /// Reads the events with rows both before and after the start of this month.
    ReadDivided(Home),
    /// Drops the partitions of `events` or `reports` before a month. Can't have a condition.
    Drop {
        first_month: Home,
        is_events: bool,
    },
}

/// An event and the places of its reports' rows. For each place, also whether an event without expired parts refers to it.
pub(super) type Divided = (EventPlace, Vec<(ReportPlace, bool)>);

impl Statement {
    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Reports { version, .. } | Self::Events { version, .. } => Some(version >> 40),
            Self::Progress(progress) => Some(progress.epoch),
            _ => None,
        }
    }

    pub(super) fn parts(&self) -> usize {
        match self {
            Self::Reports { parts, .. } => parts.len(),
            Self::Events { parts, .. } => parts.len(),
            _ => 1,
        }
    }
}

#[derive(Clone)]
pub(super) struct Request {
    pub(super) writer: usize,
    pub(super) call: u64,
    pub(super) slot: Slot,
    pub(super) statement: Rc<Statement>,
    /// Whether the network delays the statement for a long time.
    pub(super) is_slow: bool,
}

#[derive(Debug)]
pub(super) enum Reply {
    Done,
    /// The epoch is not the highest (code 395).
    Fenced,
    /// Another statement uses the query id (code 216).
    Busy,
    /// The outcome is unknown.
    TimedOut,
    Head(Head),
    State(Progress, Vec<StoredReport>),
    Places(Vec<EventPlace>),
    Rows(Vec<EventRow<Facts>>),
    Divided(Vec<Divided>),
}

#[derive(Debug)]
pub(super) struct Head {
    pub(super) writers: Vec<Claim>,
    pub(super) progress_epoch: u64,
    pub(super) largest_version: u64,
}

impl Head {
    pub(super) fn epoch(&self) -> u64 {
        self.writers.iter().map(|claim| claim.epoch).max().unwrap_or(0)
    }
}

pub(super) struct Running {
    pub(super) request: Request,
    /// Partitions that are not visible yet; `None` until the condition is evaluated.
    remaining: Option<Vec<usize>>,
    pub(super) is_slow: bool,
}

pub(super) enum Advanced {
    Evaluated,
    Committed,
    Ended(Request, Reply),
}

pub(super) struct Server {
    pub(super) tables: Tables,
    pub(super) running: Vec<Running>,
    pub(super) has_fence: bool,
}

impl Server {
    pub(super) fn new(start: Offsets, slot_of_claims: Slot, has_fence: bool) -> Self {
        let writers = vec![Claim { epoch: 0, writer: usize::MAX, slot: slot_of_claims }];
        let progress = Progress { next: start, ..Progress::default() };
        let tables = Tables { writers, progress, events: Table::default(), reports: Table::default() };
        Self { tables, running: Vec::new(), has_fence }
    }

    fn head(&self) -> Head {
        let Tables { writers, progress, events, reports } = &self.tables;
        let largest_version = events.largest_version().max(reports.largest_version());
        Head { writers: writers.clone(), progress_epoch: progress.epoch, largest_version }
    }

    /// Starts a statement. Returns the reply if it ends immediately.
    pub(super) fn begin(&mut self, request: Request, is_slow: bool) -> Option<(Request, Reply)> {
        let is_busy = self.running.iter().any(|running| running.request.slot == request.slot);
        let tables = &self.tables;
        let reply = match &*request.statement {
            _ if is_busy => Reply::Busy,
            Statement::Probe => Reply::Done,
            Statement::ReadHead => Reply::Head(self.head()),
            Statement::ReadState => {
                let interrupted = tables.reports.newer_than(tables.progress.completed).copied().collect();
                Reply::State(tables.progress.clone(), interrupted)
            }
            Statement::ReadIndex { chunk, chunks } => {
                let places = tables.events.live_rows().map(|(place, _)| place);
                Reply::Places(places.filter(|place| place.key.0 % chunks == *chunk).cloned().collect())
            }
            Statement::ReadRows(places) => {
                Reply::Rows(places.iter().filter_map(|place| tables.events.get(place)).cloned().collect())
            }
            Statement::ReadDivided(first_month) => Reply::Divided(tables.divided(*first_month)),
            _ => {
                self.running.push(Running { request, remaining: None, is_slow });
                return None;
            }
        };
        Some((request, reply))
    }

    pub(super) fn advance(&mut self, n: usize, random: &mut StdRng) -> Advanced {
        let highest = self.head().epoch();
        let running = &mut self.running[n];
        let statement = running.request.statement.clone();
        let Some(left) = &mut running.remaining else {
            let holds = match &*statement {
                Statement::Claim { expected, .. } => highest == *expected,
                Statement::Drop { .. } => true,
                data => !self.has_fence || data.epoch() == Some(highest),
            };
            if holds {
                running.remaining = Some((0..statement.parts()).collect());
                return Advanced::Evaluated;
            }
            return Advanced::Ended(self.running.swap_remove(n).request, Reply::Fenced);
        };
        if left.is_empty() {
            return Advanced::Ended(self.running.swap_remove(n).request, Reply::Done);
        }
        let part = left.swap_remove(random.random_range(0..left.len()));
        self.tables.commit(&statement, part);
        Advanced::Committed
    }
}

impl Tables {
    fn divided(&self, first_month: Home) -> Vec<Divided> {
        let homes = |row: &EventRow<Facts>| row.reports.iter().map(|report| report.home).chain([row.home]).collect::<Vec<_>>();
        let survives = |row: &EventRow<Facts>| homes(row).iter().all(|home| *home >= first_month);
        let is_divided = |row: &EventRow<Facts>| !survives(row) && homes(row).iter().any(|home| *home >= first_month);
        let surviving = self.events.live_rows().filter(|(_, row)| survives(row)).flat_map(|(_, row)| &row.reports);
        let surviving: BTreeSet<EventKey> = surviving.map(|report| report.accepted.identity).collect();
        let reports = |row: &EventRow<Facts>| {
            let places = row.reports.iter().map(Entry::place);
            places.map(|place| (place, surviving.contains(&place.identity))).collect()
        };
        let divided = self.events.live_rows().filter(|(_, row)| is_divided(row));
        divided.map(|(place, row)| (place.clone(), reports(row))).collect()
    }

    fn commit(&mut self, statement: &Statement, part: usize) {
        match statement {
            Statement::Claim { claim, .. } => self.writers.push(*claim),
            Statement::Reports { version, parts, .. } => {
                parts[part].iter().for_each(|(place, row)| self.reports.insert(*version, *place, *row));
            }
            Statement::Events { version, parts, .. } => {
                for write in &parts[part] {
                    let row = if let EventWrite::Row(row) = write { Some(row.clone()) } else { None };
                    self.events.insert(*version, write.place(), row);
                }
            }
            Statement::Drop { first_month, is_events: true } => self.events.drop_where(|place| place.home < *first_month),
            Statement::Drop { first_month, is_events: false } => self.reports.drop_where(|place| place.home < *first_month),
            Statement::Progress(progress) if progress.order() > self.progress.order() => {
                self.progress = progress.clone();
            }
            _ => {}
        }
    }
}
