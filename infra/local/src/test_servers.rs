//! Servers for a single test, with their own ports and data. Dropping a server stops it. Tests can kill, stop, pause and restart servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use crate::fetch::{self, Cache};
use crate::interrupt::Interrupt;
use crate::kill_on_exit::KillOnExit;
use crate::ports::Ports;
use crate::process::Process;
use crate::process::end;
use crate::progress::Progress;
use crate::server_config::{Broker, ServerConfig};
use crate::server_kind::{ServerKind, ServerPorts};
use crate::stack::managed_address;
use crate::test_accounts::ClickHouseUsers;
pub use crate::test_accounts::ScramListener;
use crate::workspace::Workspace;

/// Long, because many tests start servers at once on few cores.
const START_LIMIT: Duration = Duration::from_secs(180);

/// Time limit for a regular stop.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// A test's Kafka server.
#[derive(Debug)]
pub struct Kafka(Server);

/// A test's PostgreSQL server, with the database and user `telemetry`.
#[derive(Debug)]
pub struct Postgres(Server);

/// A test's ClickHouse server, with the `telemetry` database.
#[derive(Debug)]
pub struct ClickHouse(Server);

impl Kafka {
    /// Returns the bootstrap address, `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.address()
    }

    /// Returns the address on which the brokers of [`Kafka::cluster_behind_proxies`] connect to each other directly.
    #[must_use]
    pub fn internal_address(&self) -> String {
        let internal = self.0.site.broker.as_ref().map_or(self.0.site.listen.port, |broker| broker.internal);
        managed_address(ServerKind::Kafka, internal)
    }

    /// Starts a broker with an additional listener that requires TLS and this user.
    pub fn with_scram_listener(dir: &Path, guard: ScramListener) -> Result<Self> {
        let mut site = site(ServerKind::Kafka, &dir.join(ServerKind::Kafka.name()), &fetched(ServerKind::Kafka)?)?;
        let mut ports = Ports::default();
        site.listen = ServerPorts { port: ports.choose(&[])?, second_port: ports.choose(&[])? };
        site.scram_listener = Some(ScramListener { port: ports.choose(&[])?, ..guard });
        Server::launch(site).map(Self)
    }

    /// Returns the bootstrap address of the listener that [`Kafka::with_scram_listener`] adds.
    #[must_use]
    pub fn scram_address(&self) -> String {
        managed_address(
            ServerKind::Kafka,
            self.0.site.scram_listener.as_ref().map_or(self.0.site.listen.port, |guard| guard.port),
        )
    }

    /// Starts a cluster with one broker per port. Each broker advertises its port in `proxies`, where a proxy must listen. With three
    /// brokers, each record has three replicas and is acknowledged once two have it.
    pub fn cluster_behind_proxies(dir: &Path, proxies: &[u16]) -> Result<Vec<Self>> {
        let launcher = fetched(ServerKind::Kafka)?;
        let mut ports = Ports::default();
        proxies.iter().for_each(|port| ports.reserve(*port));
        let controllers: Vec<u16> = proxies.iter().map(|_| ports.choose(&[])).collect::<Result<_>>()?;
        let site = |(place, advertised): (usize, &u16)| {
            let home = dir.join(format!("broker-{}", place + 1));
            let mut site = site(ServerKind::Kafka, &home, &launcher)?;
            site.listen = ServerPorts { port: ports.choose(&[])?, second_port: controllers[place] };
            let (advertised, internal) = (*advertised, ports.choose(&[])?);
            site.broker = Some(Broker { number: place + 1, advertised, internal, controllers: controllers.clone() });
            Ok(site)
        };
        let sites: Vec<ServerConfig> = proxies.iter().enumerate().map(site).collect::<Result<_>>()?;
        // No broker becomes ready before most of them are running.
        std::thread::scope(|scope| {
            let starting: Vec<_> = sites.into_iter().map(|site| scope.spawn(|| Server::launch(site).map(Self))).collect();
            starting.into_iter().map(|broker| broker.join().expect("starting a broker does not panic")).collect()
        })
    }
}

impl Postgres {
    /// Returns the data folder, which belongs to the server's account.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.0.site.data
    }

    /// Returns the value for `DATABASE_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.address()
    }
}

impl ClickHouse {
    /// Starts a server with the additional accounts in this file, which can use these environment variables.
    pub fn with_users(dir: &Path, file: &Path, environment: &[(&str, &str)]) -> Result<Self> {
        let mut site = site(ServerKind::ClickHouse, &dir.join(ServerKind::ClickHouse.name()), &fetched(ServerKind::ClickHouse)?)?;
        site.listen = listen(ServerKind::ClickHouse)?;
        site.users = Some(users(file, environment));
        Server::launch(site).map(Self)
    }

    /// Like `with_users`, but also listens on the native protocol. A wrong password for the default user makes the engine exit.
    pub fn with_users_and_native(dir: &Path, file: &Path, environment: &[(&str, &str)]) -> Result<Self> {
        let mut site = site(ServerKind::ClickHouse, &dir.join(ServerKind::ClickHouse.name()), &fetched(ServerKind::ClickHouse)?)?;
        let mut ports = Ports::default();
        site.listen = ServerPorts { port: ports.choose(&[])?, second_port: ports.choose(&[])? };
        site.users = Some(users(file, environment));
        Server::launch(site).map(Self)
    }

    /// Starts several servers as the shards of the `telemetry` cluster.
    pub fn shards(dir: &Path, count: usize) -> Result<Vec<Self>> {
        let launcher = fetched(ServerKind::ClickHouse)?;
        let mut ports = Ports::default();
        let native: Vec<u16> = (0..count).map(|_| ports.choose(&[])).collect::<Result<_>>()?;
        let site = |(place, second_port): (usize, &u16)| {
            let mut site = site(ServerKind::ClickHouse, &dir.join(format!("shard-{}", place + 1)), &launcher)?;
            site.listen = ServerPorts { port: ports.choose(&[])?, second_port: *second_port };
            site.shards.clone_from(&native);
            Ok(site)
        };
        let sites: Vec<ServerConfig> = native.iter().enumerate().map(site).collect::<Result<_>>()?;
        std::thread::scope(|scope| {
            let starting: Vec<_> = sites.into_iter().map(|site| scope.spawn(|| Server::launch(site).map(Self))).collect();
            starting.into_iter().map(|shard| shard.join().expect("starting a shard does not panic")).collect()
        })
    }

    /// Returns the native protocol's port, or 0 if it is closed.
    #[must_use]
    pub fn native_port(&self) -> u16 {
        self.0.site.listen.second_port
    }

    /// Returns the value for `CLICKHOUSE_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.address()
    }
}

macro_rules! controls {
    ($($server:ident)*) => {$(
        impl $server {
            /// Starts a server on free ports with its data below `dir`. Downloads the release if it is missing.
            pub fn start(dir: &Path) -> Result<Self> {
                Server::start(ServerKind::$server, dir).map(Self)
            }

            /// Returns the process id, for measuring resource usage.
            #[must_use]
            pub fn pid(&self) -> u32 {
                self.0.child.id()
            }

            /// Kills the server without giving it time to clean up, like a machine failure. Keeps the data.
            pub fn kill_9(&mut self) {
                self.0.kill_9();
            }

            /// Stops the server with a signal and waits for its end. Kills it after a timeout. Keeps the data.
            pub fn terminate(&mut self) {
                self.0.terminate();
            }

            /// Returns whether the process has ended.
            pub fn has_ended(&mut self) -> bool {
                self.0.child.try_wait().is_ok_and(|ended| ended.is_some())
            }

            /// Pauses the process: connections stay open, but get no responses.
            pub fn pause(&self) {
                self.0.signal(Signal::STOP);
            }

            pub fn resume(&self) {
                self.0.signal(Signal::CONT);
            }

            /// Restarts the server on the same ports with the same data. Kills it first if it is running.
            pub fn restart(&mut self) -> Result<()> {
                self.0.restart()
            }
        }
    )*};
}

controls! { Kafka Postgres ClickHouse }

#[derive(Debug)]
struct Server {
    site: ServerConfig,
    child: Child,
    tether: KillOnExit,
}

impl Server {
    fn start(kind: ServerKind, dir: &Path) -> Result<Self> {
        let mut site = site(kind, &dir.join(kind.name()), &fetched(kind)?)?;
        site.listen = listen(kind)?;
        Self::launch(site)
    }

    fn launch(site: ServerConfig) -> Result<Self> {
        let (child, tether) = start_with_helper(&site)?;
        Ok(Self { site, child, tether })
    }

    fn address(&self) -> String {
        managed_address(self.site.kind, self.site.listen.port)
    }

    fn kill_9(&mut self) {
        end(&mut self.child);
    }

    fn terminate(&mut self) {
        if let Some(process) = Process::find(self.child.id()) {
            process.signal(self.site.kind.stop_signal());
            process.wait_until_gone(STOP_LIMIT, || false);
        }
        self.kill_9();
    }

    fn signal(&self, signal: Signal) {
        for process in Process::find(self.child.id()).into_iter().flat_map(Process::tree) {
            process.signal(signal);
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.kill_9();
        let (child, tether) = start_with_helper(&self.site)?;
        std::mem::replace(&mut self.tether, tether).release();
        self.child = child;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill_9();
        self.tether.release();
        if let Some(elsewhere) = external_data_folder(&self.site) {
            // Leftover test data is useless, and harmless if it can't be deleted.
            let _ = fs::remove_dir_all(elsewhere);
        }
    }
}

fn users(file: &Path, environment: &[(&str, &str)]) -> ClickHouseUsers {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ClickHouseUsers { file: file.to_owned(), environment }
}

/// Downloads the release if it is missing, and returns the launcher.
fn fetched(kind: ServerKind) -> Result<PathBuf> {
    fetch::fetch(&[kind], &Progress::lines(), &Interrupt::default())?;
    let launcher = Workspace::find()?.ensure_launcher()?;
    if kind == ServerKind::Kafka {
        archive_classes(&launcher)?;
    }
    Ok(launcher)
}

/// Makes a broker write its loaded classes into the cache, unless the cache already has them. Java maps them into memory, which halves the
/// startup time of brokers. Java builds that don't support the archive ignore it.
fn archive_classes(launcher: &Path) -> Result<()> {
    let (cache, release) = (Cache::for_this_user()?, fetch::kafka_classes_release());
    if cache.has(&release) {
        return Ok(());
    }
    cache.remove_leftovers(&release);
    let fill = |draft: &Path| {
        let mut site = site(ServerKind::Kafka, &draft.join(ServerKind::Kafka.name()), launcher)?;
        site.listen = listen(ServerKind::Kafka)?;
        site.class_archive = Some(draft.join("release").join(fetch::KAFKA_CLASSES));
        Server::launch(site)?.terminate();
        Ok(())
    };
    cache.fill(&release, &Interrupt::default(), fill).context("cannot archive Kafka's classes")
}

/// Chooses free ports. Only Kafka has a second one.
fn listen(kind: ServerKind) -> Result<ServerPorts> {
    let mut ports = Ports::default();
    let port = ports.choose(&[])?;
    Ok(ServerPorts { port, second_port: if kind == ServerKind::Kafka { ports.choose(&[])? } else { 0 } })
}

fn site(kind: ServerKind, home: &Path, launcher: &Path) -> Result<ServerConfig> {
    let home = std::path::absolute(home).context("the data folder has no absolute path")?;
    Ok(ServerConfig { is_short_lived: true, ..ServerConfig::new(kind, &home, ServerPorts::default(), launcher)? })
}

/// Starts the server, with a helper that ends it if this process is killed.
fn start_with_helper(site: &ServerConfig) -> Result<(Child, KillOnExit)> {
    let mut tether = None;
    let child = site.start(START_LIMIT, &Interrupt::default(), |child| {
        if let Some(process) = Process::find(child.id()) {
            tether = Some(KillOnExit::attach(&site.launcher, process, external_data_folder(site))?);
        }
        Ok(())
    })?;
    let tether = tether.with_context(|| format!("{} stopped right after it started", site.kind.title()))?;
    Ok((child, tether))
}

/// Returns the data folder if it is outside of the test's folder.
fn external_data_folder(site: &ServerConfig) -> Option<&Path> {
    site.data.parent().filter(|parent| *parent != site.home)
}
