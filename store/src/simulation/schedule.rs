//! Runs a schedule: all events, in an order determined by the seed.

use super::backup::Backup;
use super::checks::Checks;
use super::server::{Advanced, Reply, Request, Server, Statement};
use super::simulated_log::{Log, Offsets};
use super::takeover::Takeover;
use super::writer::{Context, Phase, Writer};
use super::{Rule, Rules};
use crate::report::Home;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

/// A schedule that isn't finished after this number of steps never finishes.
const MAX_STEPS: usize = 50_000;

/// Number of occurrences of each of [`KINDS`].
pub(super) type Occurrences = BTreeMap<&'static str, usize>;

/// Situations that must occur in at least one schedule.
pub(super) const SITUATIONS: [&str; 8] = [
    "a takeover",
    "a fenced insert",
    "an unknown outcome",
    "an interrupted block",
    "a move between partitions",
    "a killed server",
    "a restore",
    "a drop",
];

pub(super) struct Simulation {
    pub(super) log: Log,
    pub(super) rules: Rules,
    pub(super) random: StdRng,
    pub(super) server: Server,
    pub(super) network: Vec<Request>,
    pub(super) writers: Vec<Writer>,
    kafka: Offsets,
    pub(super) checks: Checks,
    pub(super) backup: Backup,
    pub(super) occurrences: Occurrences,
    /// The first month to keep, once a month has expired.
    pub(super) first_month: Option<Home>,
    /// Whether faults have ended and the schedule runs until everything is stored.
    is_finishing: bool,
}

/// Runs a seed's schedule. Returns what happened, or the violation.
pub(super) fn run(seed: u64, rules: Rules) -> Result<Occurrences, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let log = Log::generate(&mut random);
    let start = log.start();
    let server = Server::new(start.clone(), random.random(), rules.is_followed(Rule::Fence));
    let (checks, writers) = (Checks::new(&log), vec![Writer::new(0, start.clone()), Writer::new(1, start.clone())]);
    let (network, backup, happened) = (Vec::new(), Backup::default(), Occurrences::default());
    let mut world = Simulation {
        log,
        rules,
        random,
        server,
        network,
        writers,
        kafka: start,
        checks,
        backup,
        occurrences: happened,
        first_month: None,
        is_finishing: false,
    };
    for _ in 0..world.random.random_range(200..1_500) {
        if world.random.random_bool(0.03) {
            world.send_heartbeat();
        }
        if world.random.random_bool(0.92) { world.advance_random()? } else { world.fault()? }
    }
    world.finish()
}

impl Simulation {
    /// Advances a random writer, request or statement that is ready.
    fn advance_random(&mut self) -> Result<(), String> {
        let ready: Vec<usize> = self.writers.iter().filter(|writer| writer.can_step()).map(|writer| writer.id).collect();
        let (requests, statements) = (self.network.len(), self.server.running.len());
        let all = ready.len() + requests + statements;
        if all == 0 {
            return self.time_out();
        }
        match self.random.random_range(0..all) {
            n if n < ready.len() => self.step(ready[n]),
            n if n < ready.len() + requests => {
                self.begin(n - ready.len());
                Ok(())
            }
            n => self.advance(n - ready.len() - requests),
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.occurrences.entry(what).or_default() += 1;
    }

    fn finish(&mut self) -> Result<Occurrences, String> {
        self.is_finishing = true;
        self.writers.iter_mut().for_each(|writer| writer.is_paused = false);
        for _ in 0..MAX_STEPS {
            self.time_out_lost_calls();
            self.advance_random()?;
            if self.writers.iter().all(Writer::is_dead) {
                self.add_writer()?;
            }
            if self.is_done() {
                self.checks.check_end(&self.log, &self.server.tables)?;
                *self.occurrences.entry("a takeover").or_default() += self.server.tables.writers.len() - 1;
                return Ok(std::mem::take(&mut self.occurrences));
            }
        }
        Err("the schedule does not finish".to_owned())
    }

    fn is_done(&self) -> bool {
        let epoch = self.server.tables.writers.iter().map(|claim| claim.epoch).max();
        let is_done = |writer: &Writer| {
            let has_all = writer.progress.next == self.log.end() && self.first_month.is_none_or(|of| of == writer.first_month);
            matches!(writer.phase, Phase::Ready) && Some(writer.claim.epoch) == epoch && has_all
        };
        self.network.is_empty() && self.server.running.is_empty() && self.writers.iter().any(is_done)
    }

    fn step(&mut self, id: usize) -> Result<(), String> {
        let was_taking_over = matches!(self.writers[id].phase, Phase::TakingOver(_));
        let violation = self.with_context(id, Writer::step);
        let has_taken_over = was_taking_over && matches!(self.writers[id].phase, Phase::Ready);
        if has_taken_over && !self.writers[id].interrupted.is_empty() {
            self.count("an interrupted block");
        }
        // A former leader may have read a torn state, but it can't write.
        let epoch = self.server.tables.writers.iter().map(|claim| claim.epoch).max();
        let is_leader = epoch == Some(self.writers[id].claim.epoch);
        violation.filter(|_| is_leader).map_or(Ok(()), Err)
    }

    /// Sends a writer's heartbeat while it writes a block.
    fn send_heartbeat(&mut self) {
        let id = self.random.random_range(0..self.writers.len());
        self.with_context(id, Writer::send_heartbeat_during_block);
    }

    /// Runs a writer's action and returns the violation that it found.
    fn with_context(&mut self, id: usize, act: fn(&mut Writer, &mut Context<'_>)) -> Option<String> {
        let is_standby = |writer: &Writer| matches!(writer.phase, Phase::TakingOver(Takeover::Standby));
        let is_leaderless = self.writers.iter().all(|writer| writer.is_dead() || is_standby(writer));
        let mut violation = None;
        let Self { log, rules, random, network, kafka, writers, first_month, .. } = self;
        let first_month = *first_month;
        let mut context = Context { log, rules, random, network, kafka, first_month, is_leaderless, violation: &mut violation };
        act(&mut writers[id], &mut context);
        violation
    }

    fn begin(&mut self, n: usize) {
        if self.network[n].is_slow && self.random.random_bool(0.9) {
            return;
        }
        let request = self.network.swap_remove(n);
        let is_slow = self.random.random_bool(0.1);
        if let Some((request, reply)) = self.server.begin(request, is_slow) {
            self.reply(&request, reply);
        }
    }

    fn advance(&mut self, n: usize) -> Result<(), String> {
        if self.server.running[n].is_slow && self.random.random_bool(0.95) {
            return Ok(());
        }
        let statement = self.server.running[n].request.statement.clone();
        match self.server.advance(n, &mut self.random) {
            Advanced::Evaluated => {
                self.checks.evaluated(&statement);
                match &*statement {
                    Statement::Events { is_first: true, .. } => self.count("a move between partitions"),
                    Statement::Drop { .. } => self.count("a drop"),
                    _ => {}
                }
                Ok(())
            }
            Advanced::Committed => {
                if !self.rules.is_followed(Rule::KeepsTombstones) && self.random.random_bool(0.2) {
                    self.server.tables.events.clean_up();
                }
                if !self.is_finishing && self.random.random_bool(0.03) {
                    // Kill the host of both in the middle of an insert.
                    let writer = self.server.running[n].request.writer;
                    self.writers[writer].phase = Phase::Dead;
                    self.add_writer()?;
                    self.kill_server()?;
                }
                self.checks.check(&self.log, &self.server.tables)
            }
            Advanced::Ended(request, reply) => {
                if matches!(reply, Reply::Fenced) && !matches!(&*statement, Statement::Claim { .. }) {
                    self.count("a fenced insert");
                }
                self.reply(&request, reply);
                Ok(())
            }
        }
    }

    /// Delivers a reply, unless it is lost or no longer expected.
    fn reply(&mut self, request: &Request, reply: Reply) {
        let is_lost = !self.is_finishing && self.random.random_bool(0.05);
        let writer = &mut self.writers[request.writer];
        if writer.waits_for == Some(request.call) && writer.reply.is_none() && !is_lost {
            writer.reply = Some(reply);
        }
    }

    fn time_out_lost_calls(&mut self) {
        for writer in self.writers.iter_mut().filter(|writer| writer.reply.is_none()) {
            let Some(call) = writer.waits_for else { continue };
            let mut requests = self.network.iter().chain(self.server.running.iter().map(|running| &running.request));
            if !requests.any(|request| request.writer == writer.id && request.call == call) {
                writer.reply = Some(Reply::TimedOut);
            }
        }
    }
}
