//! Fills the store as a deployment is filled: records go onto the topic by the gateway's own log, and worker processes take
//! them from there.
//!
//! Must not end before the table holds every observation once, and must leave no process or folder behind.

use super::history::History;
use crate::options::ReadBenchOptions;
use crate::stage::{self, FreshStores, LaunchConfig, ProcessSlot, Running, Service, tail, workspace_root};
use anyhow::{Context as _, ensure};
use ingest_gateway::{Durability, Log};
use local::ports::Ports;
use service_kit::http::ApiError;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Workers, each a process, in one group.
const WORKERS: usize = 2;
/// Records on their way to the log at a time.
const IN_FLIGHT: usize = 256;
/// How often it is said how far it is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the table may stay as it is before something is wrong; a broker waits 45 s for a member that was killed.
const STALLED: Duration = Duration::from_secs(120);

/// Publishes the history of these options and waits until it is stored.
pub(super) async fn fill(
    options: &ReadBenchOptions,
    stores: &FreshStores,
    name: &str,
    domain: &str,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let root = workspace_root();
    let binaries = stage::binaries(&root, options.binaries.as_deref(), &[]).await?;
    let folder = stage::folder_of_run(&root, name)?;
    let launchpad =
        LaunchConfig { binaries, folder: folder.clone(), stores: stores.addresses.clone(), gateway_settings: Vec::new() };
    let mut workers = Vec::new();
    let mut outcome = start(&launchpad, &mut workers).await;
    if outcome.is_ok() {
        outcome = publish_and_wait(options, &launchpad, domain, stop).await;
    }
    for worker in workers {
        let status = worker.stop().await?;
        if !status.success() {
            eprintln!("a worker ended with {status}");
        }
    }
    std::fs::remove_dir_all(&folder).context("the run's folder cannot be deleted")?;
    outcome
}

async fn start(launchpad: &LaunchConfig, workers: &mut Vec<Running>) -> anyhow::Result<()> {
    let mut ports = Ports::default();
    for nth in 1..=WORKERS {
        let seat = ProcessSlot::free(Service::Worker, &worker_name(nth), &mut ports)?;
        workers.push(launchpad.spawn(&seat, &[])?);
    }
    for worker in workers {
        worker.until_ready().await?;
    }
    Ok(())
}

fn worker_name(nth: usize) -> String {
    format!("stream-workers-{nth}")
}

async fn publish_and_wait(
    options: &ReadBenchOptions,
    launchpad: &LaunchConfig,
    domain: &str,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let durability = Durability { spill_dir: Some(launchpad.folder.join("fill.spill")), ..Durability::default() };
    let log = Log::connect(&launchpad.stores.kafka, &durability).await?;
    let begun = Instant::now();
    let published = publish(options, &log, domain, stop).await?;
    eprintln!("\rpublished {published} in {:.0?}          ", begun.elapsed());
    // What the log was too slow for is in the spill, and is drained while the log lives.
    until_stored(launchpad, published, stop).await?;
    eprintln!("\rstored {published} in {:.0?}          ", begun.elapsed());
    log.flush().await;
    Ok(())
}

/// Puts every record on the log; how many observations they hold.
async fn publish(options: &ReadBenchOptions, log: &Log, domain: &str, stop: &CancellationToken) -> anyhow::Result<u64> {
    let (begun, mut told, mut published) = (Instant::now(), Instant::now(), 0);
    let mut on_the_way: JoinSet<anyhow::Result<u64>> = JoinSet::new();
    for record in History::new(options.seed, domain, options.observations, options.share).flatten() {
        ensure!(!stop.is_cancelled(), "stopped");
        if on_the_way.len() >= IN_FLIGHT
            && let Some(appended) = on_the_way.join_next().await
        {
            published += appended??;
        }
        let log = log.clone();
        on_the_way.spawn(async move {
            let refused = |refusal: ApiError| anyhow::anyhow!("the log refuses a record: {}", refusal.detail());
            let message = log.message(&record, "read-bench").map_err(refused)?;
            log.append(&message).await.map_err(refused)?;
            Ok(record.events.len() as u64)
        });
        if told.elapsed() >= LOOK_EVERY {
            eprint!("\rpublished {published} of {} in {:.0?} ", options.observations, begun.elapsed());
            told = Instant::now();
        }
    }
    while let Some(appended) = on_the_way.join_next().await {
        published += appended??;
    }
    Ok(published)
}

/// A record that went onto the log twice, or was worked off twice, is there once.
async fn until_stored(launchpad: &LaunchConfig, published: u64, stop: &CancellationToken) -> anyhow::Result<()> {
    let client = service_kit::stores::clickhouse(&launchpad.stores.clickhouse)?;
    let count = async |rows: &str| client.query(&format!("SELECT count() FROM {rows}")).fetch_one::<u64>().await;
    let (mut seen, mut seen_at) = (0, Instant::now());
    loop {
        ensure!(!stop.is_cancelled(), "stopped");
        let rows = count("observations").await?;
        // The exact count costs seconds: it is asked for once there can be enough.
        let stored = if rows < published { rows } else { count("observations FINAL").await? };
        ensure!(stored <= published, "{stored} observations are stored, and {published} were published");
        if stored == published {
            return Ok(());
        }
        if stored != seen {
            (seen, seen_at) = (stored, Instant::now());
        }
        let said = || (1..=WORKERS).map(|nth| said_by(&launchpad.folder, nth)).collect::<String>();
        ensure!(seen_at.elapsed() < STALLED, "{stored} of {published} are stored, and no more for {STALLED:?}: {}", said());
        eprint!("\rstored {stored} of {published} ");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn said_by(folder: &Path, nth: usize) -> String {
    tail(&folder.join(format!("{}.log", worker_name(nth))))
}
