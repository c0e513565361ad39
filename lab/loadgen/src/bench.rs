//! Runs a fixed list of loads against services that are started for the run.
//!
//! First, the gateway is measured without the worker (P1, P5, P11). Then the worker processes the full log (P3). Finally, the whole
//! pipeline is measured (P2, P4), also during a replay of its log (P10) and while one tenant sends more than its share (P12). The other
//! loads share one oracle.

mod freshness;
mod replay;
mod shares;
mod table;
mod webhooks;

use crate::Verdict;
use crate::drive::{Arrivals, Pace};
use crate::options::{BenchOptions, Conduct};
use crate::oracle::Fate;
use crate::processes::ProcessMeter;
use crate::report::{LoadReport, write_json};
use crate::session::{Session, Workload};
use crate::test_bed::{Service, TestBed};
use crate::workload::Mix;
use std::time::Duration;
use table::{BenchReport, Comparison, Drain, Pipeline, median};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const CONNECTIONS: usize = 64;
/// Maximum number of connections in an open loop. It is higher than the number of requests that the gateway processes concurrently, so that
/// an overload is rejected by the gateway instead of queued by the client.
const MAX_CONNECTIONS: usize = 6_000;
/// Content owners, each with its own agent. With 16 of them, no key reaches its rate limit.
const TENANTS: usize = 16;
/// Batch size, the incumbent's published events per second, and the required ratio to that rate (P1).
const THROUGHPUT: [(usize, f64, f64); 3] = [(1, 6_200.0, 4.0), (10, 30_000.0, 4.0), (100, 55_000.0, 5.0)];
const BURST: f64 = 10.0;
/// Steady load before a burst, as a fraction of the batch 1 throughput. The burst ([`BURST`] times this) slightly exceeds that throughput.
const STEADY: f64 = 0.12;
/// Live load during a replay, as a fraction of the batch 1 throughput.
const LIVE: f64 = 0.25;
/// Minimum pause between the reads of two tenants; more frequent reads would distort the measurement.
const READ_EVERY: Duration = Duration::from_secs(5);
/// Pause between two loads, during which queues drain.
const PAUSE: Duration = Duration::from_secs(1);

pub async fn run(options: &BenchOptions, stop: CancellationToken) -> anyhow::Result<Verdict> {
    let mut stage = TestBed::find_or_start(&options.place(), TENANTS).await?;
    let workload = Workload { mix: mix(1), skew: 0.0, late_percent: 0 };
    let conduct = Conduct { read_every: options.conduct.read_every.max(READ_EVERY), ..options.conduct.clone() };
    let mut session = Session::begin(&stage, workload, &conduct, stop.clone()).await?;
    let mut bench = Bench { options, session: &mut session, stage: &stage };

    let throughput = bench.throughput().await;
    let peak = throughput.first().map_or(0.0, |row| median(&row.service));
    let half_load = bench.open("half load", peak / 2.0).await;
    let steady = bench.open("steady", peak * STEADY).await;
    let burst = bench.open("burst", peak * STEADY * BURST).await;
    let overload = bench.open("overload", peak * BURST).await;
    let drain = drain(&session, &mut stage).await?;
    let mut bench = Bench { options, session: &mut session, stage: &stage };
    let pipeline = bench.pipeline().await;

    let freshness = bench.freshness(peak * STEADY, peak * STEADY * BURST).await?;
    let replays = bench.replays(peak * LIVE).await?;
    let shares = bench.shares().await?;

    let run = session.end(&stage.base).await?;
    let verdict = run.oracle.verdict();
    let report = BenchReport { throughput, half_load, steady, burst, overload, drain, pipeline, freshness, replays, shares, run };
    println!("{report}");
    write_json(&report, options.conduct.json.as_deref())?;
    stage.tear_down(verdict == Verdict::Broken).await?;
    anyhow::ensure!(!stop.is_cancelled(), "stopped early: the results above are incomplete");
    Ok(verdict)
}

struct Bench<'a> {
    options: &'a BenchOptions,
    session: &'a mut Session,
    stage: &'a TestBed,
}

impl Bench<'_> {
    async fn throughput(&mut self) -> Vec<Comparison> {
        let mut rows = Vec::new();
        for (batch, incumbent, wanted) in THROUGHPUT {
            let mut row = Comparison { batch, service: Vec::new(), incumbent, wanted };
            for round in 1..=self.options.rounds {
                let load = self.closed(&format!("batch {batch}, round {round}"), batch).await;
                row.service.push(load.acked_events_per_second);
            }
            rows.push(row);
        }
        rows
    }

    /// Measures batch 100 with all services until everything can be read, because acknowledging events isn't the whole cost.
    async fn pipeline(&mut self) -> Pipeline {
        self.session.wait_and_check(&self.stage.base).await;
        let watch = ProcessMeter::begin(&self.stage.measured_processes());
        let load = self.closed("whole pipeline, batch 100", 100).await;
        self.session.wait_and_check(&self.stage.base).await;
        Pipeline { load, whole: watch.end() }
    }

    async fn closed(&mut self, name: &str, batch: usize) -> LoadReport {
        self.load(name, batch, Arrivals::Closed { connections: CONNECTIONS }).await
    }

    async fn open(&mut self, name: &str, per_second: f64) -> LoadReport {
        self.load(name, 1, Arrivals::Open { per_second, max_connections: MAX_CONNECTIONS }).await
    }

    async fn load(&mut self, name: &str, batch: usize, arrivals: Arrivals) -> LoadReport {
        let pace = Pace { arrivals, duration: self.options.duration, max_requests: None };
        let report = self.session.load(name, self.stage, mix(batch), pace).await;
        sleep(PAUSE).await;
        report
    }
}

/// Starts the workers, and waits until all events in the log can be read.
async fn drain(session: &Session, stage: &mut TestBed) -> anyhow::Result<Drain> {
    let events = session.loads().iter().filter_map(|load| load.events.get(&Fate::Acked)).sum();
    stage.add_workers().await?;
    let watch = ProcessMeter::begin(&stage.measured_processes());
    let seconds = session.wait_and_check(&stage.base).await.as_secs_f64();
    let costs = watch.end();
    let of_workers = costs.iter().filter(|cost| cost.name == Service::Worker.name());
    Ok(Drain { events, seconds, worker_cpu_seconds: of_workers.map(|cost| cost.cpu_seconds).sum() })
}

fn mix(batch: usize) -> Mix {
    Mix { batch, observers: 1, duplicate_percent: 0 }
}
