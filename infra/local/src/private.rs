//! Servers that belong to one test: own ports, own data, nothing shared with the stack, gone when dropped. They can be
//! killed, paused and restarted to see what the services do then.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use crate::fetch;
use crate::interrupt::Interrupt;
use crate::ports::Ports;
use crate::process::Process;
use crate::progress::Progress;
use crate::server::{Kind, Listen, Site, end};
use crate::stack::own_address;
use crate::tether::Tether;
use crate::workspace::Workspace;

/// Generous: many tests start servers at once on few cores.
const START_LIMIT: Duration = Duration::from_secs(180);

/// A Kafka of one test.
#[derive(Debug)]
pub struct Kafka(Server);

/// A PostgreSQL of one test, with the database and user `telemetry`.
#[derive(Debug)]
pub struct Postgres(Server);

/// A ClickHouse of one test, with the database `telemetry`.
#[derive(Debug)]
pub struct ClickHouse(Server);

impl Kafka {
    /// The bootstrap address, `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.address()
    }
}

impl Postgres {
    /// The value for `DATABASE_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.address()
    }
}

impl ClickHouse {
    /// The value for `CLICKHOUSE_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.address()
    }
}

macro_rules! controls {
    ($($server:ident)*) => {$(
        impl $server {
            /// Starts one on free ports with its data under `dir`; fetches the release first if it is missing.
            pub fn start(dir: &Path) -> Result<Self> {
                Server::start(Kind::$server, dir).map(Self)
            }

            /// Ends it the way a lost machine would, with no chance to clean up. Data stays.
            pub fn kill_9(&mut self) {
                self.0.kill_9();
            }

            /// Stops its clock: connections stay open and nothing answers.
            pub fn pause(&self) {
                self.0.signal(Signal::STOP);
            }

            /// Ends a pause.
            pub fn resume(&self) {
                self.0.signal(Signal::CONT);
            }

            /// Starts it again on the same ports with the same data, after a kill if it still runs.
            pub fn restart(&mut self) -> Result<()> {
                self.0.restart()
            }
        }
    )*};
}

controls! { Kafka Postgres ClickHouse }

#[derive(Debug)]
struct Server {
    site: Site,
    child: Child,
    tether: Tether,
}

impl Server {
    fn start(kind: Kind, dir: &Path) -> Result<Self> {
        fetch::fetch(&[kind], &Progress::lines(), &Interrupt::default())?;
        let launcher = Workspace::find()?.ensure_launcher()?;
        let dir = std::path::absolute(dir).context("the folder for the data has no absolute path")?;
        let mut site = Site::new(kind, &dir.join(kind.name()), Listen::default(), &launcher)?;
        let mut ports = Ports::default();
        site.listen = Listen { port: ports.choose(&[])?, second_port: ports.choose(&[])? };
        let (child, tether) = bring_up(&site)?;
        Ok(Self { site, child, tether })
    }

    fn address(&self) -> String {
        own_address(self.site.kind, self.site.listen.port)
    }

    fn kill_9(&mut self) {
        end(&mut self.child);
    }

    fn signal(&self, signal: Signal) {
        for process in Process::of(self.child.id()).into_iter().flat_map(Process::tree) {
            process.signal(signal);
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.kill_9();
        let (child, tether) = bring_up(&self.site)?;
        std::mem::replace(&mut self.tether, tether).release();
        self.child = child;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill_9();
        self.tether.release();
        if let Some(elsewhere) = elsewhere(&self.site) {
            // what is left of a test's data is of no use, and of no harm if it cannot be deleted
            let _ = fs::remove_dir_all(elsewhere);
        }
    }
}

/// Starts the server, and beside it what ends it should this process be killed.
fn bring_up(site: &Site) -> Result<(Child, Tether)> {
    let mut tether = None;
    let child = site.bring_up(START_LIMIT, &Interrupt::default(), |child| {
        if let Some(process) = Process::of(child.id()) {
            tether = Some(Tether::tie(&site.launcher, process, elsewhere(site))?);
        }
        Ok(())
    })?;
    let tether = tether.with_context(|| format!("{} ended right after it came up", site.kind.name()))?;
    Ok((child, tether))
}

/// The folder for its data, if that could not be in the test's own.
fn elsewhere(site: &Site) -> Option<&Path> {
    site.data.parent().filter(|parent| *parent != site.home)
}
