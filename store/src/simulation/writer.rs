//! Simulates a writer, as a state machine that can be paused wherever it waits for the server.
//!
//! The writer inserts a block into `reports`, then `events`, then `progress`, and then changes the index in memory. A fenced writer exits.
//! If an insert's outcome is unknown, the writer runs a statement under its own query id, to be sure that no earlier copy is running, and
//! sends the same bytes again.

use super::blocks::{Block, BlockLookup, Kind, Plan, RequiredOffsets};
use super::server::{Claim, Progress, Reply, Request, Slot, Statement, StoredReport};
use super::simulated_log::{Log, Offsets};
use super::takeover::Takeover;
use super::{Rule, Rules};
use crate::reference_model::Facts;
use crate::report::Home;
use crate::row::{EventPlace, EventRow, EventWrite, WrittenReport};
use rand::RngExt;
use rand::rngs::StdRng;
use schemas::event_key::EventKey;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) struct Context<'a> {
    pub(super) log: &'a Log,
    pub(super) rules: &'a Rules,
    pub(super) random: &'a mut StdRng,
    pub(super) network: &'a mut Vec<Request>,
    /// Offsets committed to Kafka.
    pub(super) kafka: &'a mut Offsets,
    /// The first month to keep, once a month has expired.
    pub(super) first_month: Option<Home>,
    /// Whether there is no active writer.
    pub(super) is_leaderless: bool,
    pub(super) violation: &'a mut Option<String>,
}

pub(super) enum Phase {
    TakingOver(Takeover),
    Ready,
    LookingUp(BlockLookup),
    /// Waits for the outcome of the statement with this number.
    Writing(Plan, usize),
    /// Waits until its query id is free, to repeat the statement with this number.
    WaitingForSlot(Plan, usize),
    Committing,
    Dead,
}

pub(super) struct Writer {
    pub(super) id: usize,
    pub(super) phase: Phase,
    pub(super) is_paused: bool,
    call: u64,
    pub(super) waits_for: Option<u64>,
    pub(super) reply: Option<Reply>,
    pub(super) claim: Claim,
    pub(super) progress: Progress,
    pub(super) block: u64,
    pub(super) index: BTreeMap<EventKey, EventPlace>,
    /// Rows that this writer wrote.
    hot: BTreeMap<EventKey, EventRow<Facts>>,
    /// Rows that an interrupted block wrote to `reports`. `cover` and `needs` define how far the first blocks must reach for them.
    pub(super) interrupted: Vec<StoredReport>,
    pub(super) cover: Offsets,
    pub(super) needs: RequiredOffsets,
    /// The first month that the writer stores. It skips rows in earlier months.
    pub(super) first_month: Home,
}

impl Writer {
    pub(super) fn new(id: usize, start: Offsets) -> Self {
        Self {
            id,
            phase: Phase::TakingOver(Takeover::Standby),
            is_paused: false,
            call: 0,
            waits_for: None,
            reply: None,
            claim: Claim { epoch: 0, writer: id, slot: 0 },
            progress: Progress { next: start.clone(), ..Progress::default() },
            block: 0,
            index: BTreeMap::new(),
            hot: BTreeMap::new(),
            interrupted: Vec::new(),
            cover: start,
            needs: RequiredOffsets::new(),
            first_month: Home(0),
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        matches!(self.phase, Phase::Dead)
    }

    pub(super) fn can_step(&self) -> bool {
        !self.is_dead() && !self.is_paused && (self.waits_for.is_none() || self.reply.is_some())
    }

    pub(super) fn send(&mut self, slot: Slot, statement: Rc<Statement>, context: &mut Context<'_>) {
        self.call += 1;
        self.waits_for = Some(self.call);
        let request = Request { writer: self.id, call: self.call, slot, statement, is_slow: context.random.random_bool(0.1) };
        if context.random.random_bool(0.05) {
            context.network.push(Request { is_slow: true, ..request.clone() });
        }
        context.network.push(request);
    }

    /// Sends a statement under a random query id.
    pub(super) fn send_read(&mut self, statement: Statement, context: &mut Context<'_>) {
        let slot = context.random.random();
        self.send(slot, Rc::new(statement), context);
    }

    pub(super) fn step(&mut self, context: &mut Context<'_>) {
        self.waits_for = None;
        let reply = self.reply.take();
        self.phase = match (std::mem::replace(&mut self.phase, Phase::Dead), reply) {
            (Phase::TakingOver(takeover), reply) => self.take_over(takeover, reply, context),
            (Phase::Ready, _) => self.begin(context),
            (Phase::LookingUp(mut gathering), Some(Reply::Rows(rows))) => {
                gathering.rows.extend(rows.into_iter().map(|row| (row.key, row)));
                gathering.absent.append(&mut gathering.requested);
                self.look_up_keys(gathering, context)
            }
            (Phase::LookingUp(gathering), _) => self.look_up_keys(gathering, context),
            (Phase::Writing(plan, n), Some(Reply::Done)) => self.write(plan, n + 1, context),
            (Phase::Writing(..), Some(Reply::Fenced)) => Phase::Dead,
            (Phase::Writing(plan, n) | Phase::WaitingForSlot(plan, n), Some(Reply::Busy | Reply::TimedOut)) => {
                self.send(self.claim.slot, Rc::new(Statement::Probe), context);
                Phase::WaitingForSlot(plan, n)
            }
            (Phase::WaitingForSlot(plan, n), _) => self.repeat(plan, n, context),
            (Phase::Committing, _) => {
                context.kafka.clone_from(&self.progress.next);
                Phase::Ready
            }
            (Phase::Writing(..) | Phase::Dead, _) => Phase::Dead,
        };
    }

    fn begin(&mut self, context: &mut Context<'_>) -> Phase {
        let chance = context.random.random_range(0..10);
        let is_settled = self.interrupted.is_empty();
        if chance == 0 {
            let mut progress = self.next_progress();
            if !context.rules.is_followed(Rule::HeartbeatsSettleNothing) {
                progress.completed = self.claim.epoch << 40 | self.block;
            }
            return self.write(Plan::heartbeat(progress), 0, context);
        }
        if let Some(first_month) = context.first_month.filter(|of| chance < 4 && is_settled && *of != self.first_month) {
            if !context.rules.is_followed(Rule::DeletesBeforeItReads) {
                return Phase::TakingOver(self.delete_before(first_month, context));
            }
            // A month has expired, so the writer takes over from itself.
            self.send_read(Statement::ReadHead, context);
            return Phase::TakingOver(Takeover::ReadingHead);
        }
        if chance == 1 && is_settled && context.first_month.is_none() {
            let to: Offsets = self.progress.next.iter().map(|next| context.random.random_range(0..=*next)).collect();
            let from = to.iter().map(|to| context.random.random_range(0..=*to)).collect();
            return self.look_up_keys(BlockLookup::new(Block { from, to }, true, context.log), context);
        }
        match Block::cut(context.log, &self.progress.next, (&self.cover, &self.needs), (context.rules, context.random)) {
            Some(block) => self.look_up_keys(BlockLookup::new(block, false, context.log), context),
            None => Phase::Ready,
        }
    }

    /// Discards what the writer has read from the tables in an earlier epoch.
    pub(super) fn forget_tables(&mut self, log: &Log) {
        self.block = 0;
        self.first_month = Home(0);
        self.index.clear();
        self.hot.clear();
        self.interrupted.clear();
        self.cover = log.start();
        self.needs.clear();
    }

    fn next_progress(&self) -> Progress {
        Progress { epoch: self.claim.epoch, heartbeat: self.progress.heartbeat + 1, ..self.progress.clone() }
    }

    fn kept_from(&self, rules: &Rules) -> Home {
        if rules.is_followed(Rule::SkipsExpired) { self.first_month } else { Home(0) }
    }

    fn interrupted(&self) -> Vec<WrittenReport> {
        self.interrupted.iter().map(|row| WrittenReport { place: row.place, accepted: row.accepted }).collect()
    }

    /// Returns whether a block up to `next` is the last one that interrupted reports need.
    fn is_covered(&self, next: &Offsets) -> bool {
        self.cover.iter().zip(next).all(|(cover, next)| next >= cover)
    }

    /// Looks up keys until all are known.
    fn look_up_keys(&mut self, mut gathering: BlockLookup, context: &mut Context<'_>) -> Phase {
        gathering.requested.clear();
        loop {
            let keys = gathering.next_keys();
            if keys.is_empty() {
                return self.merge(&gathering, context);
            }
            let mut places = Vec::new();
            for key in keys {
                match (self.index.get(&key), self.hot.get(&key)) {
                    (None, _) => {
                        gathering.absent.insert(key);
                    }
                    (Some(_), Some(row)) if context.random.random_bool(0.5) => {
                        gathering.rows.insert(key, row.clone());
                    }
                    (Some(place), _) => {
                        gathering.requested.insert(key);
                        places.push(place.clone());
                    }
                }
            }
            if !places.is_empty() {
                self.send_read(Statement::ReadRows(places), context);
                return Phase::LookingUp(gathering);
            }
        }
    }

    fn merge(&mut self, gathering: &BlockLookup, context: &mut Context<'_>) -> Phase {
        let changes = gathering.merge(&self.interrupted(), self.kept_from(context.rules), context.log.most_observers);
        if gathering.is_replay {
            if !changes.is_empty() {
                *context.violation = Some(format!("a replay of {:?} changed rows", gathering.block));
            }
            return Phase::Ready;
        }
        self.block += 1;
        let version = self.claim.epoch << 40 | self.block;
        let settled = if self.is_covered(&gathering.block.to) { version } else { self.progress.completed };
        let progress = Progress { next: gathering.block.to.clone(), completed: settled, ..self.next_progress() };
        match Plan::new(&gathering.block, changes, (version, progress), context.log, context.rules) {
            Ok(plan) => self.write(plan, 0, context),
            Err(violation) => {
                *context.violation = Some(violation);
                Phase::Dead
            }
        }
    }

    /// Sends a heartbeat while a block is being written, without waiting for a reply. The heartbeat is correct until the block's row of
    /// `progress` is sent, which has a larger number.
    pub(super) fn send_heartbeat_during_block(&mut self, context: &mut Context<'_>) {
        let Phase::Writing(plan, n) = &self.phase else { return };
        if self.is_paused || n + 1 >= plan.statements.len() || plan.kind == Kind::Deletion {
            return;
        }
        self.progress.heartbeat += 1;
        self.progress.epoch = self.claim.epoch;
        let (statement, call) = (Rc::new(Statement::Progress(self.progress.clone())), 0);
        context.network.push(Request { writer: self.id, call, slot: context.random.random(), statement, is_slow: true });
    }

    /// Sends the statement with this number, or completes the block.
    pub(super) fn write(&mut self, mut plan: Plan, n: usize, context: &mut Context<'_>) -> Phase {
        let is_progress = n + 1 == plan.statements.len() && plan.kind != Kind::Deletion;
        if is_progress
            && self.progress.heartbeat >= plan.progress.heartbeat
            && context.rules.is_followed(Rule::NumbersProgressLast)
        {
            plan.progress.heartbeat = self.progress.heartbeat + 1;
            plan.statements[n] = Rc::new(Statement::Progress(plan.progress.clone()));
        }
        if let Some(statement) = plan.statements.get(n) {
            let slot =
                if context.rules.is_followed(Rule::InsertsHaveOneQueryId) { self.claim.slot } else { context.random.random() };
            self.send(slot, statement.clone(), context);
            return Phase::Writing(plan, n);
        }
        if plan.kind == Kind::Deletion {
            if !context.rules.is_followed(Rule::DeletesBeforeItReads) {
                return Phase::Ready;
            }
            return Phase::TakingOver(self.begin_to_read(context));
        }
        self.progress = plan.progress;
        if plan.kind == Kind::Block {
            if self.is_covered(&self.progress.next) {
                self.interrupted.clear();
            }
            // `events` now contains the interrupted rows of the records that were read again.
            let next = &self.progress.next;
            self.interrupted.retain(|row| row.origin.offset >= next[row.origin.partition]);
            self.remember(plan.events);
        }
        Phase::Committing
    }

    /// Repeats a statement with an unknown outcome.
    fn repeat(&mut self, plan: Plan, n: usize, context: &mut Context<'_>) -> Phase {
        if context.rules.is_followed(Rule::RepeatsSameBytes) || plan.kind != Kind::Block {
            return self.write(plan, n, context);
        }
        Phase::Ready
    }

    fn remember(&mut self, writes: Vec<EventWrite<Facts>>) {
        let (rows, tombstones): (Vec<_>, Vec<_>) = writes.into_iter().partition(|write| matches!(write, EventWrite::Row(_)));
        for place in tombstones.into_iter().map(|write| write.place()) {
            self.hot.remove(&place.key);
            self.index.remove(&place.key);
        }
        for row in rows {
            if let EventWrite::Row(row) = row {
                self.index.insert(row.key, row.place());
                self.hot.insert(row.key, row);
            }
        }
    }
}
