//! The stack that a run targets, which is already running or started for the run, with its tenants and the processes to measure.

mod demo_env;
mod leftovers;
pub mod place;
mod services;
mod stores;

pub(crate) use leftovers::{folder_of_run, keep};
pub(crate) use services::{LaunchConfig, ProcessSlot, binaries, tail};
pub use services::{Running, Service};
pub(crate) use stores::{Addresses, FreshStores, run_name};

use crate::client::Endpoint;
use crate::processes::{self, MeasuredProcess};
use crate::tenants::{self, Tenant};
use anyhow::Context as _;
use local::ServerKind;
use local::stack::{Endpoints, Record};
use place::TargetOptions;
use service_kit::settings::PostgresSettings;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct TestBed {
    /// A unique name, which is part of every name that the run creates.
    pub name: String,
    pub ingest: Endpoint,
    pub base: Endpoint,
    pub tenants: Vec<Tenant>,
    own: Option<OwnStack>,
    outside: Vec<MeasuredProcess>,
}

#[derive(Debug)]
struct OwnStack {
    launch: LaunchConfig,
    stores: FreshStores,
    running: Vec<Running>,
}

impl TestBed {
    /// Finds or starts the stack and creates the tenants. The workers of a new stack are started later, by [`TestBed::add_workers`].
    pub async fn find_or_start(options: &TargetOptions, tenants: usize) -> anyhow::Result<Self> {
        let name = run_name();
        if options.start { Self::start(options, name, tenants).await } else { Self::find(options, name, tenants).await }
    }

    async fn start(options: &TargetOptions, name: String, tenants: usize) -> anyhow::Result<Self> {
        let root = workspace_root();
        let binaries = binaries(&root, options.binaries.as_deref(), &[]).await?;
        let folder = folder_of_run(&root, &name)?;
        let stores = FreshStores::create(Endpoints::of_running_stack()?, &name).await?;
        let tenants = tenants::seed(&stores.pool, &name, tenants).await?;
        let launch = LaunchConfig { binaries, folder, stores: stores.addresses.clone() };
        let mut running = Vec::new();
        for service in Service::ALL.into_iter().filter(|service| *service != Service::Worker) {
            running.push(launch.start(service).await?);
        }
        let url = |wanted| running.iter().find(|running| running.service == wanted).map(|running| running.url.as_str());
        let ingest = Endpoint::parse(url(Service::Gateway).context("there is a gateway")?)?;
        let base = Endpoint::parse(url(Service::Query).context("there is a query-api")?)?;
        let outside = servers(&root);
        Ok(Self { name, ingest, base, tenants, own: Some(OwnStack { launch, stores, running }), outside })
    }

    async fn find(options: &TargetOptions, name: String, tenants: usize) -> anyhow::Result<Self> {
        let root = workspace_root();
        let file = root.join(".local/demo.env");
        // With --base-url, the file may belong to another stack.
        let known = if options.base_url.is_none() { demo_env::read(&file) } else { BTreeMap::new() };
        let value = |given: &Option<String>, variable: &str| given.clone().or_else(|| known.get(variable).cloned());
        let base_url = value(&options.base_url, "BASE_URL").with_context(|| {
            format!("no stack found: run `cargo up` (it writes {}), give --base-url, or use --start", file.display())
        })?;
        let ingest_url = value(&options.ingest_url, "INGEST_URL").unwrap_or_else(|| base_url.clone());
        let ingest = Endpoint::parse(&ingest_url)?;
        let base = Endpoint::parse(&base_url)?;
        let database_url = value(&options.database_url, "DATABASE_URL").context("give --database-url to seed tenants")?;
        let pool = service_kit::databases::postgres(&PostgresSettings { database_url })?;
        let tenants = tenants::seed(&pool, &name, tenants).await?;
        let mut outside = Vec::new();
        let surfaces = [("reads", base.address), ("ingest", ingest.address)];
        for (surface, address) in surfaces.into_iter().filter(|(_, address)| address.ip().is_loopback()) {
            let listener = processes::listener_on(address.port());
            let known = |pid| outside.iter().any(|watched: &MeasuredProcess| watched.pid == pid);
            if let Some(pid) = listener.filter(|pid| !known(*pid)) {
                outside.push(MeasuredProcess { name: surface.to_owned(), pid, is_shared: true });
            }
        }
        outside.extend(servers(&root));
        Ok(Self { name, ingest, base, tenants, own: None, outside })
    }

    /// Starts the workers, unless the stack was already running and has its own.
    pub async fn add_workers(&mut self) -> anyhow::Result<()> {
        let Some(own) = &mut self.own else { return Ok(()) };
        if !own.running.iter().any(|running| running.service == Service::Worker) {
            own.running.push(own.launch.start(Service::Worker).await?);
        }
        Ok(())
    }

    /// Replays the whole log of a stack that was started for the run. Returns the replay's output.
    pub async fn replay(&self, rate: Option<u32>) -> anyhow::Result<String> {
        let own = self.own.as_ref().context("only the log of a stack started for the run can be replayed")?;
        let rate = rate.map(|rate| rate.to_string());
        let arguments: Vec<&str> = ["replay"].into_iter().chain(rate.iter().flat_map(|rate| ["--rate", rate])).collect();
        own.launch.run(Service::Worker, &arguments).await
    }

    /// Returns the address of a service that was started for the run.
    pub fn endpoint(&self, service: Service) -> anyhow::Result<Endpoint> {
        let running = self.own.iter().flat_map(|own| &own.running).find(|running| running.service == service);
        Endpoint::parse(&running.with_context(|| format!("{} was not started", service.name()))?.url)
    }

    /// Returns the run's folder, which is removed at its end.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.launch.folder.as_path())
    }

    pub fn database_url(&self) -> Option<&str> {
        self.own.as_ref().map(|own| own.launch.stores.postgres.database_url.as_str())
    }

    /// Returns all processes to measure, with this one last.
    pub fn measured_processes(&self) -> Vec<MeasuredProcess> {
        let own = self.own.iter().flat_map(|own| own.running.iter().filter_map(Running::watched));
        let ourselves = MeasuredProcess { name: "load (this)".to_owned(), pid: std::process::id(), is_shared: false };
        own.chain(self.outside.iter().cloned()).chain([ourselves]).collect()
    }

    /// Stops the services and deletes what the run has created. Keeps the services' logs if `keep_logs` is set.
    pub async fn tear_down(self, keep_logs: bool) -> anyhow::Result<()> {
        let Some(own) = self.own else { return Ok(()) };
        for running in own.running {
            let name = running.service.name();
            let status = running.stop().await?;
            if !status.success() {
                eprintln!("{name} ended with {status}");
            }
        }
        own.stores.delete().await;
        if keep_logs {
            eprintln!("the services' logs are in {}", own.launch.folder.display());
            return keep(&own.launch.folder).context("failed to keep the run's folder");
        }
        std::fs::remove_dir_all(&own.launch.folder).context("failed to delete the run's folder")
    }
}

/// Returns the running local servers. Their costs include work for others.
fn servers(root: &Path) -> Vec<MeasuredProcess> {
    let record = Record::load(&root.join(".local"));
    let watched = |kind: ServerKind| {
        let process = record.running(kind)?.process?;
        Some(MeasuredProcess { name: kind.name().to_owned(), pid: process.pid, is_shared: true })
    };
    ServerKind::ALL.into_iter().filter_map(watched).collect()
}

/// Returns the clone that contains the current folder, otherwise the one from which this program was built.
pub(crate) fn workspace_root() -> PathBuf {
    let is_root = |folder: &&Path| folder.join("lab/loadgen/Cargo.toml").is_file();
    let current = std::env::current_dir().unwrap_or_default();
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    current.ancestors().find(is_root).map_or(built_from, Path::to_path_buf)
}
