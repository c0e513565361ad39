//! What the three servers have in common: a log, a way to come up and to be asked whether they are up. What differs stands in the
//! file of each; who is to run, and for how long, is decided elsewhere.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::interrupt::Interrupt;
use crate::kind::Kind;
use crate::process::{Process, end, strays};
use crate::site::Site;
use crate::{clickhouse, kafka, postgres, private_files};

/// A log that has grown past this is put aside.
pub(crate) const LOG_LIMIT_BYTES: u64 = 50 * 1024 * 1024;
/// How long a start may take as a whole, however much the log says: Kafka recovers each of a thousand partitions after it was killed.
const LONGEST_START: Duration = Duration::from_secs(900);
/// How much of a log is shown when its server did not come up.
const LOG_TAIL_LINES: usize = 20;

impl Site {
    /// Processes that hold this site's data although no record of them is left.
    pub(crate) fn strays(&self) -> Vec<Process> {
        match self.kind {
            Kind::Kafka => strays("java", &kafka::config_file(self).to_string_lossy()),
            Kind::Postgres => strays("postgres", &self.data.to_string_lossy()),
            Kind::ClickHouse => strays("local", &self.data.to_string_lossy()),
        }
    }

    /// Asks in the server's own protocol whether it does its work.
    pub(crate) fn probe(&self) -> Result<()> {
        probe(self.kind, self.listen.port)
    }

    /// Prepares what is missing, starts the server and waits until it answers, or says nothing for as long as `limit`. `launched`
    /// learns of the process at once, long before it is ready.
    pub(crate) fn bring_up(
        &self,
        limit: Duration,
        interrupt: &Interrupt,
        mut launched: impl FnMut(&Child) -> Result<()>,
    ) -> Result<Child> {
        match self.kind {
            Kind::Kafka => kafka::prepare(self)?,
            Kind::Postgres => postgres::prepare(self)?,
            Kind::ClickHouse => clickhouse::prepare(self)?,
        }
        rotate(&self.log())?;
        let mut patience = Patience::new(limit, Instant::now());
        // what a killed PostgreSQL left behind needs a moment to notice; the others get one more try
        let mut tries_left = if self.kind == Kind::Postgres { 10 } else { 1 };
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
                    let reason = outcome.err().unwrap_or_else(|| anyhow!("it stopped by itself"));
                    return Err(self.failure(&reason));
                }
            }
        }
    }

    fn launch(&self) -> Result<Child> {
        let log = private_files::open_log(&self.log()).context("cannot open the server's log")?;
        let mut command = match self.kind {
            Kind::Kafka => kafka::command(self),
            Kind::Postgres => postgres::command(self),
            Kind::ClickHouse => clickhouse::command(self),
        };
        let stderr = log.try_clone()?;
        // a group of its own: Ctrl-C in the terminal must not reach it
        command.stdin(Stdio::null()).stdout(log).stderr(stderr).process_group(0);
        command.spawn().with_context(|| format!("cannot start {}", self.kind.title()))
    }

    /// True once it answers, false if it ended instead.
    fn wait_until_ready(&self, child: &mut Child, patience: &mut Patience, interrupt: &Interrupt) -> Result<bool> {
        loop {
            if child.try_wait()?.is_some() {
                return Ok(false);
            }
            let answer = self.probe().and_then(|()| self.settle());
            let Err(refusal) = answer else {
                return Ok(true);
            };
            interrupt.check()?;
            let written = fs::metadata(self.log()).map_or(0, |log| log.len());
            if let Some(waited) = patience.ends(written, Instant::now()) {
                bail!("it didn't respond within {} s ({refusal:#})", waited.as_secs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn settle(&self) -> Result<()> {
        match self.kind {
            Kind::ClickHouse => clickhouse::create_database(self),
            Kind::Kafka | Kind::Postgres => Ok(()),
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

/// How long to wait for a server: while its log grows it is at work.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    begun: Instant,
    /// The log's length, and since when.
    written: (u64, Instant),
}

impl Patience {
    fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, begun: now, written: (0, now) }
    }

    /// How long it has been waited for, when that is enough.
    fn ends(&mut self, written: u64, now: Instant) -> Option<Duration> {
        if written != self.written.0 {
            self.written = (written, now);
        }
        let waited = now - self.begun;
        (now - self.written.1 > self.limit || waited > LONGEST_START).then_some(waited)
    }
}

/// Asks a server in its own protocol whether it does its work.
pub(crate) fn probe(kind: Kind, port: u16) -> Result<()> {
    match kind {
        Kind::Kafka => kafka::probe(port),
        Kind::Postgres => postgres::probe(port),
        Kind::ClickHouse => clickhouse::probe(port),
    }
}

/// Puts a log that has grown too large aside, replacing the one put aside before.
fn rotate(log: &Path) -> Result<()> {
    if fs::metadata(log).is_ok_and(|log| log.len() > LOG_LIMIT_BYTES) {
        fs::rename(log, log.with_extension("log.old")).context("cannot rotate the log")?;
    }
    Ok(())
}

/// Empties a log that grew too large while its server, which appends to it, runs on.
pub(crate) fn cut(log: &Path) {
    if fs::metadata(log).is_ok_and(|log| log.len() > LOG_LIMIT_BYTES) {
        // losing old lines of a local log is the point; failing to is no reason to disturb the server
        let _ = File::create(log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_waited_for_while_its_log_grows_and_given_up_when_it_falls_silent() {
        let (limit, begun) = (Duration::from_secs(60), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut silent = Patience::new(limit, begun);
        assert_eq!([59, 60, 61].map(|second| silent.ends(0, at(second))), [None, None, Some(Duration::from_secs(61))]);

        let mut recovering = Patience::new(limit, begun);
        assert!((0..600).all(|second| recovering.ends(1_000 + second / 50, at(second)).is_none()), "a line every 50 s");
        assert_eq!(recovering.ends(1_011, at(610)), None);
        assert_eq!(recovering.ends(1_011, at(611)), Some(Duration::from_secs(611)), "a minute after the last line");

        let mut babbling = Patience::new(limit, begun);
        let given_up = (0..).find(|second| babbling.ends(*second, at(*second)).is_some());
        assert_eq!(given_up, Some(LONGEST_START.as_secs() + 1));
    }
}
