//! The common part of the three servers: logs, startup and readiness. Each server's module contains its specifics.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::interrupt::Interrupt;
use crate::process::{Process, end, with_argument};
use crate::server_config::ServerConfig;
use crate::server_kind::ServerKind;
use crate::{clickhouse, kafka, postgres, private_files};

/// Size at which a log is rotated.
pub(crate) const LOG_LIMIT_BYTES: u64 = 50 * 1024 * 1024;
/// Time limit for a start, even if the log grows. After a kill, Kafka recovers a thousand partitions one by one.
const LONGEST_START: Duration = Duration::from_secs(900);
/// Number of log lines to show if a server does not start.
const LOG_TAIL_LINES: usize = 20;

impl ServerConfig {
    /// Returns processes that use this site's data without a record.
    pub(crate) fn unrecorded_processes(&self) -> Vec<Process> {
        match self.kind {
            ServerKind::Kafka => with_argument("java", &kafka::config_file(self).to_string_lossy()),
            ServerKind::Postgres => with_argument("postgres", &self.data.to_string_lossy()),
            ServerKind::ClickHouse => with_argument("local", &self.data.to_string_lossy()),
        }
    }

    /// Checks in the server's own protocol whether it is ready.
    pub(crate) fn probe(&self) -> Result<()> {
        probe(self.kind, self.listen.port)
    }

    /// Prepares missing files, starts the server, and waits until it responds, or its log is silent for `limit`. Calls `launched`
    /// as soon as the process exists.
    pub(crate) fn start(
        &self,
        limit: Duration,
        interrupt: &Interrupt,
        mut launched: impl FnMut(&Child) -> Result<()>,
    ) -> Result<Child> {
        match self.kind {
            ServerKind::Kafka => kafka::prepare(self)?,
            ServerKind::Postgres => postgres::prepare(self)?,
            ServerKind::ClickHouse => clickhouse::prepare(self)?,
        }
        rotate(&self.log())?;
        let mut patience = StartTimeout::new(limit, Instant::now());
        // PostgreSQL's child processes need a moment to notice that the server was killed. Other servers get one retry.
        let mut tries_left = if self.kind == ServerKind::Postgres { 10 } else { 1 };
        loop {
            let mut child = self.launch()?;
            let outcome = launched(&child).and_then(|()| self.wait_until_ready(&mut child, &mut patience, interrupt));
            match outcome {
                Ok(true) => return Ok(child),
                Ok(false) if tries_left > 0 => {
                    tries_left -= 1;
                    std::thread::sleep(Duration::from_millis(500));
                }
                outcome => {
                    end(&mut child);
                    interrupt.check()?;
                    let reason = outcome.err().unwrap_or_else(|| anyhow!("the process stopped"));
                    return Err(self.failure(&reason));
                }
            }
        }
    }

    fn launch(&self) -> Result<Child> {
        let log = private_files::open_log(&self.log()).context("cannot open the server's log")?;
        let mut command = match self.kind {
            ServerKind::Kafka => kafka::command(self),
            ServerKind::Postgres => postgres::command(self),
            ServerKind::ClickHouse => clickhouse::command(self),
        };
        let stderr = log.try_clone()?;
        // A separate process group, which Ctrl-C in the terminal does not reach.
        command.stdin(Stdio::null()).stdout(log).stderr(stderr).process_group(0);
        command.spawn().with_context(|| format!("cannot start {}", self.kind.title()))
    }

    /// Returns true once the server responds, or false if it ended.
    fn wait_until_ready(&self, child: &mut Child, patience: &mut StartTimeout, interrupt: &Interrupt) -> Result<bool> {
        loop {
            if child.try_wait()?.is_some() {
                return Ok(false);
            }
            let answer = self.probe().and_then(|()| self.finish_setup());
            let Err(refusal) = answer else {
                return Ok(true);
            };
            interrupt.check()?;
            let written = fs::metadata(self.log()).map_or(0, |log| log.len());
            if let Some(waited) = patience.exceeded(written, Instant::now()) {
                bail!("no response within {} s ({refusal:#})", waited.as_secs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn finish_setup(&self) -> Result<()> {
        match self.kind {
            ServerKind::ClickHouse => clickhouse::create_database(self),
            ServerKind::Kafka | ServerKind::Postgres => Ok(()),
        }
    }

    fn failure(&self, reason: &anyhow::Error) -> anyhow::Error {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(LOG_TAIL_LINES)..).unwrap_or_default().join("\n");
        let (name, hint) = (self.kind.title(), self.kind.hint());
        anyhow!("{name} didn't start: {reason:#}\nThe end of {}:\n{tail}\n{hint}", self.log().display())
    }
}

/// Decides how long to wait for a server. A growing log means that it is working.
#[derive(Debug)]
struct StartTimeout {
    limit: Duration,
    begun: Instant,
    /// Length of the log, and when the length last changed.
    written: (u64, Instant),
}

impl StartTimeout {
    fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, begun: now, written: (0, now) }
    }

    /// Returns the time waited so far if it exceeds a limit.
    fn exceeded(&mut self, written: u64, now: Instant) -> Option<Duration> {
        if written != self.written.0 {
            self.written = (written, now);
        }
        let waited = now - self.begun;
        (now - self.written.1 > self.limit || waited > LONGEST_START).then_some(waited)
    }
}

/// Checks in the server's own protocol whether it is ready.
pub(crate) fn probe(kind: ServerKind, port: u16) -> Result<()> {
    match kind {
        ServerKind::Kafka => kafka::probe(port),
        ServerKind::Postgres => postgres::probe(port),
        ServerKind::ClickHouse => clickhouse::probe(port),
    }
}

/// Rotates a log that is too large, replacing the previous rotated log.
fn rotate(log: &Path) -> Result<()> {
    if fs::metadata(log).is_ok_and(|log| log.len() > LOG_LIMIT_BYTES) {
        fs::rename(log, log.with_extension("log.old")).context("cannot rotate the log")?;
    }
    Ok(())
}

/// Empties a log that is too large while its server keeps appending to it.
pub(crate) fn truncate(log: &Path) {
    if fs::metadata(log).is_ok_and(|log| log.len() > LOG_LIMIT_BYTES) {
        // Old lines are lost on purpose, and a failure must not disturb the server.
        let _ = File::create(log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_while_the_log_grows() {
        let (limit, begun) = (Duration::from_secs(60), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut silent = StartTimeout::new(limit, begun);
        assert_eq!([59, 60, 61].map(|second| silent.exceeded(0, at(second))), [None, None, Some(Duration::from_secs(61))]);

        let mut recovering = StartTimeout::new(limit, begun);
        assert!((0..600).all(|second| recovering.exceeded(1_000 + second / 50, at(second)).is_none()), "a line every 50 s");
        assert_eq!(recovering.exceeded(1_011, at(610)), None);
        assert_eq!(recovering.exceeded(1_011, at(611)), Some(Duration::from_secs(611)), "a minute after the last line");

        let mut babbling = StartTimeout::new(limit, begun);
        let given_up = (0..).find(|second| babbling.exceeded(*second, at(*second)).is_some());
        assert_eq!(given_up, Some(LONGEST_START.as_secs() + 1));
    }
}
