//! Turns a standby into the writer.
//!
//! 1. It claims an epoch: an insert into `writers` that fails unless the highest epoch is the one it has read. All claims run
//!    under one query id, so no two are evaluated at once.
//! 2. It uses each earlier epoch's query id once. After that, statements of these epochs are no longer running, and new ones fail.
//! 3. It deletes expired months.
//! 4. It reads `progress`, the rows of `reports` that are newer than the last complete block, and the index.
//!
//! Safety doesn't depend on the time of a takeover, so simulated standbys take over at random.

use super::Rule;
use super::blocks::Plan;
use super::server::{Claim, Head, Reply, Slot, Statement};
use super::simulated_log::later;
use super::writer::{Context, Phase, Writer};
use crate::report::{Home, Report};
use rand::RngExt;
use std::rc::Rc;

/// Number of statements to read the index.
const CHUNKS: u128 = 3;

pub(super) enum Takeover {
    Standby,
    ReadingHead,
    /// Has sent the claim, which succeeds if the highest epoch is still this one.
    Claiming(Rc<Statement>, Slot, u64),
    /// Reads which writer has the epoch.
    Confirming(Rc<Statement>, Slot, u64),
    /// Waits until the last of these query ids is free.
    Draining(Vec<Slot>),
    /// Waits for the events that dropping expired months would divide.
    Dividing(Home),
    ReadingState,
    ReadingIndex(u128),
}

impl Writer {
    pub(super) fn take_over(&mut self, takeover: Takeover, reply: Option<Reply>, context: &mut Context<'_>) -> Phase {
        let next = match (takeover, reply) {
            (Takeover::Standby, _) => {
                if context.random.random_bool(if context.is_leaderless { 0.5 } else { 0.03 }) {
                    self.send_read(Statement::ReadHead, context);
                    Takeover::ReadingHead
                } else {
                    Takeover::Standby
                }
            }
            (Takeover::ReadingHead, Some(Reply::Head(head))) => self.claim_epoch(&head, context),
            (Takeover::ReadingHead, _) => Takeover::Standby,
            // An earlier copy of the claim may have succeeded, whatever the reply.
            (Takeover::Claiming(claim, slot, expected), _) => {
                self.send_read(Statement::ReadHead, context);
                Takeover::Confirming(claim, slot, expected)
            }
            (Takeover::Confirming(claim, slot, expected), Some(Reply::Head(head))) => {
                self.confirm(&head, claim, slot, expected, context)
            }
            (Takeover::Confirming(claim, slot, expected), _) => {
                self.send_read(Statement::ReadHead, context);
                Takeover::Confirming(claim, slot, expected)
            }
            (Takeover::Draining(mut slots), reply) => {
                if matches!(reply, Some(Reply::Done)) {
                    slots.pop();
                }
                self.drain(slots, context)
            }
            (Takeover::Dividing(first_month), Some(Reply::Divided(divided))) => {
                self.block += 1;
                let version = self.claim.epoch << 40 | self.block;
                return self.write(Plan::deletion(first_month, divided, version, context.rules), 0, context);
            }
            (Takeover::Dividing(first_month), _) => self.delete_before(first_month, context),
            (Takeover::ReadingState, reply) => self.read_state(reply, context),
            (Takeover::ReadingIndex(chunk), reply) => return self.read_index(chunk, reply, context),
        };
        Phase::TakingOver(next)
    }

    /// Claims an epoch larger than any in `writers` or in a stored row, because `writers` may be behind after a restore.
    fn claim_epoch(&mut self, head: &Head, context: &mut Context<'_>) -> Takeover {
        let expected = head.epoch();
        let stored = if context.rules.is_followed(Rule::ExceedsStoredVersions) { head.largest_version >> 40 } else { 0 };
        let epoch = expected.max(stored) + 1;
        self.claim = Claim { epoch, writer: self.id, slot: context.random.random() };
        let slot_of_claims =
            if context.rules.is_followed(Rule::ClaimsExcludeEachOther) { head.writers[0].slot } else { context.random.random() };
        let claim = Rc::new(Statement::Claim { expected, claim: self.claim });
        self.send(slot_of_claims, claim.clone(), context);
        Takeover::Claiming(claim, slot_of_claims, expected)
    }

    fn confirm(&mut self, head: &Head, claim: Rc<Statement>, slot: Slot, expected: u64, context: &mut Context<'_>) -> Takeover {
        let is_mine = |claim: &Claim| claim.epoch == self.claim.epoch && claim.writer == self.id;
        if head.epoch() == self.claim.epoch && head.writers.iter().any(is_mine) {
            // A writer that wrote to `progress` has waited for all earlier epochs.
            let earlier = head.progress_epoch.max(1)..self.claim.epoch;
            let slots = head.writers.iter().filter(|claim| earlier.contains(&claim.epoch)).map(|claim| claim.slot);
            return self.drain(slots.collect(), context);
        }
        if head.epoch() == expected {
            self.send(slot, claim.clone(), context);
            return Takeover::Claiming(claim, slot, expected);
        }
        Takeover::Standby
    }

    fn drain(&mut self, slots: Vec<Slot>, context: &mut Context<'_>) -> Takeover {
        if let Some(slot) = slots.last() {
            self.send(*slot, Rc::new(Statement::Probe), context);
            return Takeover::Draining(slots);
        }
        self.forget_tables(context.log);
        match context.first_month.filter(|_| context.rules.is_followed(Rule::DeletesBeforeItReads)) {
            Some(first_month) => self.delete_before(first_month, context),
            None => self.begin_to_read(context),
        }
    }

    pub(super) fn begin_to_read(&mut self, context: &mut Context<'_>) -> Takeover {
        self.send_read(Statement::ReadState, context);
        Takeover::ReadingState
    }

    pub(super) fn delete_before(&mut self, first_month: Home, context: &mut Context<'_>) -> Takeover {
        self.first_month = first_month;
        self.send_read(Statement::ReadDivided(first_month), context);
        Takeover::Dividing(first_month)
    }

    fn read_state(&mut self, reply: Option<Reply>, context: &mut Context<'_>) -> Takeover {
        let Some(Reply::State(progress, interrupted)) = reply else {
            self.send_read(Statement::ReadState, context);
            return Takeover::ReadingState;
        };
        self.progress = progress;
        self.progress.heartbeat = 0;
        if !context.rules.is_followed(Rule::StartsAtProgress) {
            self.progress.next.clone_from(context.kafka);
        }
        if context.rules.is_followed(Rule::KnowsInterrupted) {
            self.interrupted.clone_from(&interrupted);
        }
        if context.rules.is_followed(Rule::CoversInterrupted) {
            let mut cover = context.log.start();
            for row in &interrupted {
                let mut needed = context.log.start();
                needed[row.origin.partition] = row.origin.offset + 1;
                cover = later(&cover, &needed);
                let reports = &context.log.record(row.origin).reports;
                for group in reports.iter().filter(|report| report.accepted == row.accepted).map(Report::group) {
                    let needs = self.needs.entry(group).or_insert_with(|| context.log.start());
                    *needs = later(needs, &needed);
                }
            }
            self.cover = later(&self.cover, &cover);
        }
        self.send_read(Statement::ReadIndex { chunk: 0, chunks: CHUNKS }, context);
        Takeover::ReadingIndex(0)
    }

    fn read_index(&mut self, mut chunk: u128, reply: Option<Reply>, context: &mut Context<'_>) -> Phase {
        if let Some(Reply::Places(places)) = reply {
            self.index.extend(places.into_iter().map(|place| (place.key, place)));
            chunk += 1;
            if chunk == CHUNKS || !context.rules.is_followed(Rule::WaitsForIndex) {
                return Phase::Ready;
            }
        }
        self.send_read(Statement::ReadIndex { chunk, chunks: CHUNKS }, context);
        Phase::TakingOver(Takeover::ReadingIndex(chunk))
    }
}
