//! The faults that a schedule injects.

use super::Rule;
use super::schedule::Simulation;
use super::server::Reply;
use super::simulated_log::Log;
use super::writer::{Phase, Writer};
use crate::report::Home;
use rand::RngExt;

impl Simulation {
    pub(super) fn fault(&mut self) -> Result<(), String> {
        match self.random.random_range(0..82) {
            0..25 => self.time_out(),
            25..45 => self.pause(),
            45..53 => self.kill_writer(),
            53..61 => self.add_writer(),
            61..67 => self.kill_server(),
            67..77 => self.back_up(),
            77..80 => self.restore(),
            _ => self.expire(),
        }
    }

    pub(super) fn time_out(&mut self) -> Result<(), String> {
        let waiting = self.writers.iter().filter(|writer| writer.waits_for.is_some() && writer.reply.is_none());
        let waiting: Vec<usize> = waiting.map(|writer| writer.id).collect();
        if !waiting.is_empty() {
            let id = waiting[self.random.random_range(0..waiting.len())];
            self.writers[id].reply = Some(Reply::TimedOut);
            self.count("an unknown outcome");
        }
        Ok(())
    }

    fn pause(&mut self) -> Result<(), String> {
        let id = self.random.random_range(0..self.writers.len());
        self.writers[id].is_paused ^= true;
        Ok(())
    }

    fn kill_writer(&mut self) -> Result<(), String> {
        let id = self.random.random_range(0..self.writers.len());
        self.writers[id].phase = Phase::Dead;
        self.add_writer()
    }

    pub(super) fn add_writer(&mut self) -> Result<(), String> {
        if self.writers.iter().filter(|writer| !writer.is_dead()).count() < 3 {
            self.writers.push(Writer::new(self.writers.len(), self.log.start()));
        }
        Ok(())
    }

    /// Stops all running statements where they are, without replies.
    pub(super) fn kill_server(&mut self) -> Result<(), String> {
        self.server.running.clear();
        self.count("a killed server");
        Ok(())
    }

    /// Lets months expire in a fifth of the calls.
    fn expire(&mut self) -> Result<(), String> {
        if self.first_month.is_none() && self.random.random_bool(0.2) {
            let (start, end) = (self.log.start(), self.log.end());
            let months: Vec<Home> = Log::origins(&start, &end).map(|origin| self.log.record(origin).month()).collect();
            let last_expired = months[self.random.random_range(0..months.len())];
            self.first_month = Some(Home(last_expired.0 + 1));
            self.checks.expire(&self.log, last_expired);
        }
        Ok(())
    }

    fn back_up(&mut self) -> Result<(), String> {
        self.backup.copy_next(&self.server.tables, &self.checks, self.rules.is_followed(Rule::BacksUpProgressFirst));
        Ok(())
    }

    fn restore(&mut self) -> Result<(), String> {
        let Some(tables) = self.backup.tables() else { return Ok(()) };
        self.checks.restored(&tables.progress.next, &self.backup.visible);
        self.server.tables = tables;
        self.server.running.clear();
        self.network.clear();
        self.writers.iter_mut().for_each(|writer| writer.phase = Phase::Dead);
        self.count("a restore");
        self.add_writer()?;
        self.checks.check(&self.log, &self.server.tables)
    }
}
