//! Fills the store as a deployment is filled: records go onto the topic by the gateway's own log, and worker processes store them.

use crate::options::ReadBenchOptions;
use crate::stage::{self, FreshStores, LaunchConfig, ProcessSlot, Running, Service, tail, workspace_root};
use anyhow::{Context as _, ensure};
use ingest_gateway::{Durability, Log};
use local::ports::Ports;
use schemas::log::LogRecord;
use service_kit::http::ApiError;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Worker processes, one of which is active.
const WORKERS: usize = 2;
/// How often progress is read and printed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the progress may stay the same.
const STALLED: Duration = Duration::from_secs(120);

/// The log and the workers.
pub(super) struct ThroughLog {
    launch: LaunchConfig,
    workers: Vec<Running>,
    log: Log,
    published: u64,
}

impl ThroughLog {
    pub(super) async fn start(options: &ReadBenchOptions, stores: &FreshStores, name: &str) -> anyhow::Result<Self> {
        let root = workspace_root();
        let binaries = stage::binaries(&root, options.binaries.as_deref(), &[]).await?;
        let folder = stage::folder_of_run(&root, name)?;
        let launch =
            LaunchConfig { binaries, folder: folder.clone(), stores: stores.addresses.clone(), gateway_settings: Vec::new() };
        let mut ports = Ports::default();
        let mut workers = Vec::new();
        for nth in 1..=WORKERS {
            workers.push(launch.spawn(&ProcessSlot::free(Service::Worker, &worker_name(nth), &mut ports)?, &[])?);
        }
        for worker in &mut workers {
            worker.until_ready().await?;
        }
        let durability = Durability { spill_dir: Some(folder.join("fill.spill")), ..Durability::default() };
        let log = Log::connect(&launch.stores.kafka, &durability).await?;
        Ok(Self { launch, workers, log, published: 0 })
    }

    /// Appends records to the log, all at a time.
    pub(super) async fn publish(&mut self, records: Vec<LogRecord>) -> anyhow::Result<()> {
        let refused = |refusal: ApiError| anyhow::anyhow!("the log refuses a record: {}", refusal.detail());
        let mut appending: JoinSet<anyhow::Result<()>> = JoinSet::new();
        for record in records {
            let log = self.log.clone();
            appending.spawn(async move {
                let message = log.message(&record, "read-bench").map_err(refused)?;
                log.append(&message).await.map_err(refused)
            });
        }
        while let Some(appended) = appending.join_next().await {
            appended??;
            self.published += 1;
        }
        Ok(())
    }

    /// Waits until the workers have stored all records. What the log was too slow for is in the spill, and is drained meanwhile.
    pub(super) async fn until_stored(&self) -> anyhow::Result<()> {
        let client = service_kit::stores::clickhouse(&self.launch.stores.clickhouse)?;
        let statement = "SELECT ifNull((SELECT arraySum(records) FROM progress ORDER BY beat DESC LIMIT 1), 0)";
        let (mut seen, mut seen_at) = (0, Instant::now());
        loop {
            let stored: u64 = client.query(statement).fetch_one().await?;
            if stored >= self.published {
                eprintln!("\rstored {stored} records          ");
                return Ok(());
            }
            if stored != seen {
                (seen, seen_at) = (stored, Instant::now());
            }
            let published = self.published;
            let logs = || {
                (1..=WORKERS).map(|nth| tail(&self.launch.folder.join(format!("{}.log", worker_name(nth))))).collect::<String>()
            };
            ensure!(
                seen_at.elapsed() < STALLED,
                "{stored} of {published} records are stored, and no more for {STALLED:?}: {}",
                logs()
            );
            eprint!("\rstored {stored} of {published} records ");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Stops the workers and deletes their folder.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.log.flush().await;
        for worker in self.workers {
            let status = worker.stop().await?;
            if !status.success() {
                eprintln!("a worker ended with {status}");
            }
        }
        std::fs::remove_dir_all(&self.launch.folder).context("the run's folder cannot be deleted")
    }
}

fn worker_name(nth: usize) -> String {
    format!("stream-workers-{nth}")
}
