//! What the three servers have in common: a folder, ports, a log, a way to come up and to be asked whether they are up.
//! What differs stands in the file of each; who is to run, and for how long, is decided elsewhere.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::access::{Guard, Users};
use crate::account::Account;
use crate::interrupt::Interrupt;
use crate::password::Password;
use crate::process::{Process, strays};
use crate::workspace::create_open_folder;
use crate::{clickhouse, fetch, kafka, platform, postgres};

/// Database and user, in PostgreSQL and in ClickHouse.
pub(crate) const TELEMETRY: &str = "telemetry";
/// A log that has grown past this is put aside.
pub(crate) const LOG_LIMIT_BYTES: u64 = 50 * 1024 * 1024;
/// How much of a log is shown when its server did not come up.
const LOG_TAIL_LINES: usize = 20;

/// The servers of the stack.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Kind {
    /// Apache Kafka, one node that is broker and controller.
    Kafka,
    /// PostgreSQL.
    Postgres,
    /// ClickHouse.
    ClickHouse,
}

impl Kind {
    /// All of them, in the order in which tables list them.
    pub const ALL: [Self; 3] = [Self::Kafka, Self::Postgres, Self::ClickHouse];

    /// The name used for folders and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Postgres => "postgres",
            Self::ClickHouse => "clickhouse",
        }
    }

    /// The version that runs here.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Kafka => platform::KAFKA,
            Self::Postgres => platform::POSTGRES,
            Self::ClickHouse => platform::CLICKHOUSE,
        }
    }

    /// The port everybody expects it on.
    #[must_use]
    pub fn usual_port(self) -> u16 {
        match self {
            Self::Kafka => 9092,
            Self::Postgres => 5432,
            Self::ClickHouse => 8123,
        }
    }

    /// Whether the stack's asks for a password. Kafka speaks no HTTP, which is what a web page can send.
    pub(crate) fn has_password(self) -> bool {
        self != Self::Kafka
    }

    /// The setting by which a user names a server of their own.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::Kafka => "KAFKA_BROKERS",
            Self::Postgres => "DATABASE_URL",
            Self::ClickHouse => "CLICKHOUSE_URL",
        }
    }

    pub(crate) fn stop_signal(self) -> Signal {
        match self {
            // PostgreSQL's fast shutdown; its SIGTERM waits for every client to leave
            Self::Postgres => Signal::INT,
            Self::Kafka | Self::ClickHouse => Signal::TERM,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Kafka => "if its data is damaged, `cargo local wipe` starts over; it needs about 500 MB of free memory",
            Self::Postgres => "if its data is damaged, `cargo local wipe` starts over; see the log for what it misses",
            Self::ClickHouse => "if its data is damaged, `cargo local wipe` starts over; it needs about 400 MB of free memory",
        }
    }
}

/// Where one server listens.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Listen {
    /// The port clients use.
    pub port: u16,
    /// Kafka's controller; the others have none.
    pub second_port: u16,
}

/// One Kafka of several, or one behind a proxy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Broker {
    /// From 1.
    pub(crate) number: usize,
    /// The port clients are told to come back to: that of the proxy.
    pub(crate) advertised: u16,
    /// Where the brokers talk to each other, with no proxy between.
    pub(crate) internal: u16,
    /// The controllers' ports of all brokers, by number.
    pub(crate) controllers: Vec<u16>,
}

/// One server in one folder: everything needed to run it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) kind: Kind,
    /// Configuration and log.
    pub(crate) home: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) listen: Listen,
    /// The unpacked release.
    pub(crate) software: PathBuf,
    /// The binary that can become ClickHouse.
    pub(crate) launcher: PathBuf,
    pub(crate) account: Option<Account>,
    /// What sets a broker apart from the single one of the stack.
    pub(crate) broker: Option<Broker>,
    /// What a guarded listener of Kafka needs.
    pub(crate) guard: Option<Guard>,
    /// Accounts of ClickHouse besides its own.
    pub(crate) users: Option<Users>,
    /// What PostgreSQL and ClickHouse ask of everybody; without one they let everybody in.
    pub(crate) password: Option<Password>,
}

impl Site {
    pub(crate) fn new(kind: Kind, home: &Path, listen: Listen, launcher: &Path) -> Result<Self> {
        create_open_folder(home)?;
        let account = (kind == Kind::Postgres).then(Account::for_postgres).transpose()?;
        let data_home = account.map_or_else(|| Ok(home.to_path_buf()), |account| account.reachable(home))?;
        Ok(Self {
            kind,
            home: home.to_path_buf(),
            data: data_home.join("data"),
            listen,
            software: fetch::software(kind)?,
            launcher: launcher.to_path_buf(),
            account,
            broker: None,
            guard: None,
            users: None,
            password: None,
        })
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.home.join("server.log")
    }

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

    /// Prepares what is missing, starts the server and waits until it answers. `launched` learns of the process at once,
    /// long before it is ready.
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
        let begun = Instant::now();
        // what a killed PostgreSQL left behind needs a moment to notice; the others get one more try
        let mut tries_left = if self.kind == Kind::Postgres { 10 } else { 1 };
        loop {
            let mut child = self.launch()?;
            let outcome = launched(&child).and_then(|()| self.wait_until_ready(&mut child, begun, limit, interrupt));
            match outcome {
                Ok(true) => return Ok(child),
                Ok(false) if tries_left > 0 => {
                    tries_left -= 1;
                    std::thread::sleep(Duration::from_millis(500));
                }
                outcome => {
                    end(&mut child);
                    interrupt.check()?;
                    let reason = outcome.err().unwrap_or_else(|| anyhow!("it ended by itself"));
                    return Err(self.failure(&reason));
                }
            }
        }
    }

    fn launch(&self) -> Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(self.log()).context("cannot open the server's log")?;
        let mut command = match self.kind {
            Kind::Kafka => kafka::command(self),
            Kind::Postgres => postgres::command(self),
            Kind::ClickHouse => clickhouse::command(self),
        };
        let stderr = log.try_clone()?;
        // a group of its own: Ctrl-C in the terminal must not reach it
        command.stdin(Stdio::null()).stdout(log).stderr(stderr).process_group(0);
        command.spawn().with_context(|| format!("cannot start {}", self.kind.name()))
    }

    /// True once it answers, false if it ended instead.
    fn wait_until_ready(&self, child: &mut Child, begun: Instant, limit: Duration, interrupt: &Interrupt) -> Result<bool> {
        loop {
            if child.try_wait()?.is_some() {
                return Ok(false);
            }
            let answer = self.probe().and_then(|()| self.settle());
            let Err(refusal) = answer else {
                return Ok(true);
            };
            interrupt.check()?;
            if begun.elapsed() > limit {
                bail!("it did not answer within {} s ({refusal:#})", limit.as_secs());
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
        let (name, hint) = (self.kind.name(), self.kind.hint());
        anyhow!("{name} did not come up: {reason:#}; the end of {}:\n{tail}\n{name}: {hint}", self.log().display())
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

/// Kills and reaps a child with all it started.
pub(crate) fn end(child: &mut Child) {
    if let Some(process) = Process::of(child.id()) {
        process.kill_tree();
    }
    // an error here means that it was reaped already
    let _ = child.wait();
}

/// Puts a log that has grown too large aside, replacing the one put aside before.
fn rotate(log: &Path) -> Result<()> {
    if fs::metadata(log).is_ok_and(|log| log.len() > LOG_LIMIT_BYTES) {
        fs::rename(log, log.with_extension("log.old")).context("cannot put the old log aside")?;
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
