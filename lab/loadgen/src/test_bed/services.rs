//! Runs the four services as separate processes on free ports, with new stores for each run.

use super::stores::Addresses;
use crate::client::{Connection, Endpoint, Exchange};
use crate::processes::MeasuredProcess;
use anyhow::{Context as _, bail};
use hyper::header::HeaderValue;
use local::ports::Ports;
use rustix::process::{Pid, Signal, kill_process};
use service_kit::secret_encryption::SecretsKey;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(12);
/// Number of log bytes to show if a service doesn't start.
const LOG_TAIL_BYTES: usize = 2_000;

/// The program and package that contains all services as subcommands.
pub(crate) const PROGRAM: &str = "telemetry";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Gateway,
    Worker,
    Query,
    Identity,
}

impl Service {
    pub const ALL: [Self; 4] = [Self::Identity, Self::Gateway, Self::Query, Self::Worker];

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
                let takeover = ("TELEMETRY_TAKEOVER_AFTER_MS", "5000".to_owned());
                let shard = ("TELEMETRY_SHARD", stores.shard.to_string());
                kafka.into_iter().chain(clickhouse).chain(postgres).chain([takeover, shard]).collect()
            }
            Self::Query => clickhouse.into_iter().chain(postgres).collect(),
            Self::Identity => {
                // The key can be new because the stores are: no encrypted secret outlives the run.
                let key = ("TELEMETRY_SECRETS_KEY", SecretsKey::generate().reveal().to_owned());
                // Relative to the working directory.
                let mail = ("TELEMETRY_MAIL_DIR", "mail".to_owned());
                // The load generator sends sign-in requests for many clients.
                let proxy = ("TELEMETRY_TRUSTED_PROXIES", "127.0.0.1/32".to_owned());
                postgres.into_iter().chain([key, mail, proxy]).collect()
            }
        }
    }
}

/// A running service. It is killed when dropped.
#[derive(Debug)]
pub struct Running {
    pub service: Service,
    pub url: String,
    child: Child,
    log: PathBuf,
}

/// Settings for starting services.
#[derive(Debug)]
pub(crate) struct LaunchConfig {
    pub(crate) binaries: PathBuf,
    /// Folder for the logs, and working directory of the services.
    pub(crate) folder: PathBuf,
    pub(crate) stores: Addresses,
}

/// A process's name and ports, which a restart doesn't change.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSlot {
    pub(crate) service: Service,
    /// Also used for its log and spill.
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

    /// Returns the path of the log, which contains the output of all restarts.
    pub(crate) fn log(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.log", self.name))
    }
}

impl LaunchConfig {
    pub(super) async fn start(&self, service: Service) -> anyhow::Result<Running> {
        let mut running = self.spawn(&ProcessSlot::free(service, service.name(), &mut Ports::default())?, &[])?;
        running.until_ready().await?;
        Ok(running)
    }

    /// Starts a service in its slot, with additional settings. Doesn't wait until the service is ready.
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
            // The load generator uses one address for many clients.
            command.env("TELEMETRY_CONNECTIONS_PER_ADDRESS", "0");
        }
        let child = command.envs(besides.iter().map(|(name, value)| (name, value))).spawn();
        let child = child.with_context(|| format!("{} cannot be started", service.name()))?;
        Ok(Running { service, url: slot.url(), child, log })
    }

    /// Runs a command of a service and returns its standard error.
    pub(crate) async fn run(&self, service: Service, arguments: &[&str]) -> anyhow::Result<String> {
        let done = self.command(service).args(arguments).output().await;
        let done = done.with_context(|| format!("{} cannot be started", service.name()))?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        anyhow::ensure!(done.status.success(), "{} {} ended with {}: {said}", service.name(), arguments.join(" "), done.status);
        Ok(said)
    }

    /// Returns a command with only the stores' settings.
    fn command(&self, service: Service) -> Command {
        let mut command = Command::new(self.binaries.join(PROGRAM));
        command.arg(service.name()).env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "HOME"));
        command.envs(service.settings(&self.stores)).env("TELEMETRY_LOG", "warn").current_dir(&self.folder);
        // Ctrl-C in the terminal must reach only this program, which then stops the services properly.
        command.stdin(Stdio::null()).kill_on_drop(true).process_group(0);
        command
    }
}

impl Running {
    pub fn watched(&self) -> Option<MeasuredProcess> {
        let pid = self.child.id()?;
        Some(MeasuredProcess { name: self.service.name().to_owned(), pid, is_shared: false })
    }

    /// Stops the service with SIGTERM, or kills it if it takes too long.
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
            // It is fine if the process has already ended.
            let _ = kill_process(pid, signal);
        }
    }

    pub(crate) fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    pub(crate) async fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }

    pub(crate) async fn until_ready(&mut self) -> anyhow::Result<()> {
        let mut connection = Connection::new(Endpoint::parse(&self.url)?, Duration::from_secs(2));
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended early ({status}) with the output:\n{}", self.service.name(), tail(&self.log));
            }
            let asked = connection.get("/ready", &HeaderValue::from_static("")).await;
            if matches!(asked, Exchange::Responded(answer) if answer.status == 200) {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
        bail!("{} is not ready after {START_LIMIT:?}; its output:\n{}", self.service.name(), tail(&self.log))
    }
}

pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
}

/// Returns the given folder, or builds the services and returns the build's folder.
pub(crate) async fn binaries(root: &Path, given: Option<&Path>, features: &[&str]) -> anyhow::Result<PathBuf> {
    match given {
        Some(folder) => Ok(std::path::absolute(folder)?),
        None => build(root, features).await,
    }
}

/// Builds the services with this program's profile and returns their folder.
async fn build(root: &Path, features: &[&str]) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("failed to find the running program")?;
    let mut command = Command::new("cargo");
    command.arg("build").args(selection(features)).current_dir(root);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let built = command.status().await.context("failed to start cargo: set --binaries")?;
    anyhow::ensure!(built.success(), "failed to build the services: fix the error, or set --binaries");
    own.parent().map(Path::to_path_buf).context("the running program has no folder")
}

/// Returns the package and feature arguments for cargo.
fn selection<'a>(features: &[&'a str]) -> Vec<&'a str> {
    ["--package", PROGRAM].into_iter().chain(features.iter().flat_map(|feature| ["--features", feature])).collect()
}
