//! The four services as processes of their own, on free ports, with a store of their own each run.

use super::stores::Addresses;
use crate::client::{Connection, Endpoint, Exchange};
use crate::processes::Watched;
use anyhow::{Context as _, bail};
use hyper::header::HeaderValue;
use local::ports::Ports;
use rustix::process::{Pid, Signal, kill_process};
use service_kit::sealing::SecretsKey;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// How long a service may take to become ready.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to stop by itself.
const STOP_LIMIT: Duration = Duration::from_secs(12);
/// How much of a log is shown when its service did not come up.
const LOG_TAIL_BYTES: usize = 2_000;

/// The program that every service is a subcommand of, and its package.
pub(crate) const PROGRAM: &str = "telemetry";

/// The services of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Gateway,
    Worker,
    Query,
    Identity,
}

impl Service {
    /// In the order in which they are started.
    pub const ALL: [Self; 4] = [Self::Identity, Self::Gateway, Self::Query, Self::Worker];

    /// How its processes are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "ingest-gateway",
            Self::Worker => "stream-workers",
            Self::Query => "query-api",
            Self::Identity => "identity-api",
        }
    }

    fn settings(self, stores: &Addresses) -> Vec<(&'static str, String)> {
        let kafka = [
            ("KAFKA_BROKERS", stores.kafka.kafka_brokers.clone()),
            ("TELEMETRY_TOPIC", stores.kafka.topic.clone()),
            ("TELEMETRY_REJECTED_TOPIC", stores.kafka.rejected_topic.clone()),
        ];
        let clickhouse = [
            ("CLICKHOUSE_URL", stores.clickhouse.clickhouse_url.clone()),
            ("TELEMETRY_CLICKHOUSE_DATABASE", stores.clickhouse.clickhouse_database.clone()),
        ];
        let postgres = [("DATABASE_URL", stores.postgres.database_url.clone())];
        match self {
            Self::Gateway => kafka.into_iter().chain(postgres).collect(),
            Self::Worker => {
                let takeover = ("TELEMETRY_TAKEOVER_AFTER_MS", "2000".to_owned());
                let shard = ("TELEMETRY_SHARD", stores.shard.to_string());
                kafka.into_iter().chain(clickhouse).chain(postgres).chain([takeover, shard]).collect()
            }
            Self::Query => clickhouse.into_iter().chain(postgres).collect(),
            Self::Identity => {
                // the stores are fresh and so is the key: nothing that is sealed outlives the run
                let key = ("TELEMETRY_SECRETS_KEY", SecretsKey::mint().reveal().to_owned());
                // relative to the folder where it runs
                let mail = ("TELEMETRY_MAIL_DIR", "mail".to_owned());
                postgres.into_iter().chain([key, mail]).collect()
            }
        }
    }
}

/// A running service; killed when dropped.
#[derive(Debug)]
pub struct Running {
    pub service: Service,
    pub url: String,
    child: Child,
    log: PathBuf,
}

/// What starting a service needs.
#[derive(Debug)]
pub(crate) struct LaunchConfig {
    pub(crate) binaries: PathBuf,
    /// Logs, and what a service writes where it runs.
    pub(crate) folder: PathBuf,
    /// Where services find their stores.
    pub(crate) stores: Addresses,
}

/// The place of one process: a name and ports that it keeps when it is started again.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSlot {
    pub(crate) service: Service,
    /// Also names its log and its spill.
    pub(crate) name: String,
    port: u16,
    metrics_port: u16,
}

impl ProcessSlot {
    pub(crate) fn free(service: Service, name: &str, ports: &mut Ports) -> anyhow::Result<Self> {
        Ok(Self { service, name: name.to_owned(), port: ports.choose(&[])?, metrics_port: ports.choose(&[])? })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn metrics(&self) -> String {
        format!("http://127.0.0.1:{}", self.metrics_port)
    }

    /// What it says, also of its lives before.
    pub(crate) fn log(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.log", self.name))
    }
}

impl LaunchConfig {
    /// Starts a service and waits until it is ready.
    pub(super) async fn start(&self, service: Service) -> anyhow::Result<Running> {
        let mut running = self.spawn(&ProcessSlot::free(service, service.name(), &mut Ports::default())?, &[])?;
        running.until_ready().await?;
        Ok(running)
    }

    /// Starts a service at its place, with these settings besides the usual ones; it is not ready yet.
    pub(crate) fn spawn(&self, slot: &ProcessSlot, besides: &[(&str, String)]) -> anyhow::Result<Running> {
        let ProcessSlot { service, port, metrics_port, .. } = *slot;
        let log = slot.log(&self.folder);
        let output = File::options().create(true).append(true).open(&log);
        let output = output.with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = self.command(service);
        command.env("TELEMETRY_LISTEN", format!("127.0.0.1:{port}"));
        command.env("TELEMETRY_METRICS_LISTEN", format!("127.0.0.1:{metrics_port}"));
        command.stdout(Stdio::null()).stderr(output);
        if service == Service::Gateway {
            command.env("TELEMETRY_SPILL_DIR", self.folder.join(format!("{}.spill", slot.name)));
            // One address stands for many clients.
            command.env("TELEMETRY_CONNECTIONS_PER_ADDRESS", "0");
        }
        let child = command.envs(besides.iter().map(|(name, value)| (name, value))).spawn();
        let child = child.with_context(|| format!("{} cannot be started", service.name()))?;
        Ok(Running { service, url: slot.url(), child, log })
    }

    /// Runs a service for one command, and answers what it printed on standard error.
    pub(crate) async fn run(&self, service: Service, arguments: &[&str]) -> anyhow::Result<String> {
        let done = self.command(service).args(arguments).output().await;
        let done = done.with_context(|| format!("{} cannot be started", service.name()))?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        anyhow::ensure!(done.status.success(), "{} {} ended with {}: {said}", service.name(), arguments.join(" "), done.status);
        Ok(said)
    }

    /// A service with the settings of its stores, and no other.
    fn command(&self, service: Service) -> Command {
        let mut command = Command::new(self.binaries.join(PROGRAM));
        command.arg(service.name()).env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "HOME"));
        command.envs(service.settings(&self.stores)).env("TELEMETRY_LOG", "warn").current_dir(&self.folder);
        // a Ctrl-C in the terminal is for the run, which stops them in order
        command.stdin(Stdio::null()).kill_on_drop(true).process_group(0);
        command
    }
}

impl Running {
    pub fn watched(&self) -> Option<Watched> {
        let pid = self.child.id()?;
        Some(Watched { name: self.service.name().to_owned(), pid, is_shared: false })
    }

    /// Asks it to stop, as a supervisor does; kills it when it takes too long.
    pub async fn stop(mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::TERM);
        match timeout(STOP_LIMIT, self.child.wait()).await {
            Ok(ended) => Ok(ended?),
            Err(_) => {
                self.child.kill().await?;
                bail!("{} did not stop within {STOP_LIMIT:?} and was killed", self.service.name())
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            // it may end between the question and the signal; both outcomes are fine
            let _ = kill_process(pid, signal);
        }
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until it has ended.
    pub(crate) async fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    pub(crate) async fn until_ready(&mut self) -> anyhow::Result<()> {
        let mut connection = Connection::new(Endpoint::parse(&self.url)?, Duration::from_secs(2));
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended early ({status}) and said:\n{}", self.service.name(), tail(&self.log));
            }
            let asked = connection.get("/ready", &HeaderValue::from_static("")).await;
            if matches!(asked, Exchange::Answered(answer) if answer.status == 200) {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
        bail!("{} is not ready after {START_LIMIT:?}; it said:\n{}", self.service.name(), tail(&self.log))
    }
}

/// The end of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
}

/// The folder of the program: the one that was given, or that of what is built now.
pub(crate) async fn binaries(root: &Path, given: Option<&Path>, features: &[&str]) -> anyhow::Result<PathBuf> {
    match given {
        Some(folder) => Ok(std::path::absolute(folder)?),
        None => build(root, features).await,
    }
}

/// Builds the services in the profile of this program and returns the folder of theirs.
async fn build(root: &Path, features: &[&str]) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the running program's own file")?;
    let mut command = Command::new("cargo");
    command.arg("build").args(selection(features)).current_dir(root);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let built = command.status().await.context("cargo cannot be started; give the binaries with --binaries")?;
    anyhow::ensure!(built.success(), "the services cannot be built: correct that, or give binaries with --binaries");
    own.parent().map(Path::to_path_buf).context("the running program is in no folder")
}

/// What cargo is told to build.
fn selection<'a>(features: &[&'a str]) -> Vec<&'a str> {
    ["--package", PROGRAM].into_iter().chain(features.iter().flat_map(|feature| ["--features", feature])).collect()
}
