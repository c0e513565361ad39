//! Measures the CPU time that ClickHouse takes to parse, resolve and plan each read, for an owner without events.

use super::{OTHERS, READS, serve_reads};
use crate::client::{Connection, Exchange};
use crate::processes::{MeasuredProcess, ProcessMeter};
use crate::tenants;
use crate::test_bed::{FreshStores, run_name, workspace_root};
use crate::workload::AGENT;
use anyhow::{Context as _, ensure};
use hyper::header::HeaderValue;
use local::ServerKind;
use local::stack::{Endpoints, Record};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// An owner's reads that the bench doesn't time. The event doesn't exist, so its read only looks for reports and events with that id.
const MORE: [(&str, &str); 8] = [
    ("sections", "/content-owners/urls?by=section&"),
    ("series by role", "/content-owners/series?split=role&"),
    ("series by agent", "/content-owners/series?split=agent&"),
    ("series by outcome", "/content-owners/series?split=outcome&"),
    ("corroboration by day", "/content-owners/corroboration?by=day&"),
    ("coverage", "/content-owners/coverage?"),
    ("one event", "/content-owners/events/00000000-0000-4000-8000-000000000001?"),
    ("events of an agent", "/content-owners/events?agent_id=a&"),
];
const OF_AGENTS: [(&str, &str); 3] =
    [("agent/events", "/agent/events?"), ("agent/summary", "/agent/summary?"), ("agent/series", "/agent/series?split=agent&")];
const WARM_UP: u32 = 3;
/// How long the idle server is measured.
const IDLE: Duration = Duration::from_secs(2);

/// Prints each read's mean CPU time over `runs` runs. No other program may use the server meanwhile.
pub(super) async fn run(runs: u32, stop: &CancellationToken) -> anyhow::Result<()> {
    let name = run_name();
    let stores = FreshStores::create(Endpoints::of_running_stack()?, &name).await?;
    let outcome = measure_all(&stores, &name, runs, stop).await;
    stores.delete().await;
    outcome
}

async fn measure_all(stores: &FreshStores, name: &str, runs: u32, stop: &CancellationToken) -> anyhow::Result<()> {
    let tenant = tenants::seed(&stores.pool, name, 1).await?.pop().context("no tenant was created")?;
    let (place, serving) = serve_reads(stores, stop).await?;
    let connection = Connection::new(place, Duration::from_secs(90));
    let mut meter = Meter { connection, server: server()?, idle: 0.0, runs };
    let watch = ProcessMeter::begin(std::slice::from_ref(&meter.server));
    tokio::time::sleep(IDLE).await;
    meter.idle = cpu_seconds(watch) / IDLE.as_secs_f64();
    println!("ClickHouse without reads: {:.1} ms of CPU per second; it is subtracted", meter.idle * 1_000.0);
    println!("{:34} {:>10}", "read", "ms of CPU");
    for (what, path) in READS.iter().chain(&OTHERS).chain(&MORE) {
        meter.measure(what, path, &tenant.owner_key).await?;
    }
    for (what, path) in OF_AGENTS {
        meter.measure(what, path, &tenant.keys[AGENT]).await?;
    }
    serving.abort();
    Ok(())
}

fn server() -> anyhow::Result<MeasuredProcess> {
    let record = Record::load(&workspace_root().join(".local"));
    let process = record.running(ServerKind::ClickHouse).and_then(|entry| entry.process.as_ref());
    let pid = process.context("ClickHouse isn't a process of the local stack: run `cargo local start`")?.pid;
    Ok(MeasuredProcess { name: "ClickHouse".to_owned(), pid, is_shared: true })
}

fn cpu_seconds(watch: ProcessMeter) -> f64 {
    watch.end().first().map_or(0.0, |cost| cost.cpu_seconds)
}

struct Meter {
    connection: Connection,
    server: MeasuredProcess,
    /// CPU time of the idle server per second.
    idle: f64,
    runs: u32,
}

impl Meter {
    async fn measure(&mut self, what: &str, path: &str, key: &HeaderValue) -> anyhow::Result<()> {
        for _ in 0..WARM_UP {
            self.request(path, key).await?;
        }
        let (begun, watch) = (Instant::now(), ProcessMeter::begin(std::slice::from_ref(&self.server)));
        for _ in 0..self.runs {
            self.request(path, key).await?;
        }
        let of_reads = cpu_seconds(watch) - self.idle * begun.elapsed().as_secs_f64();
        println!("{what:34} {:>10.1}", of_reads * 1_000.0 / f64::from(self.runs));
        Ok(())
    }

    async fn request(&mut self, path: &str, key: &HeaderValue) -> anyhow::Result<()> {
        let Exchange::Responded(answer) = self.connection.get(path, key).await else { anyhow::bail!("{path} got no response") };
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(matches!(answer.status, 200 | 404), "{path}: {} {text}", answer.status);
        Ok(())
    }
}
