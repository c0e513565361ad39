//! A bench's results next to their targets, as a table and as JSON.

use super::freshness::Freshness;
use super::replay::Replays;
use super::shares::Shares;
use crate::oracle::Fate;
use crate::processes::Cost;
use crate::report::{LoadReport, Report};
use serde::Serialize;
use std::fmt;

/// The incumbent's published throughput at batch 100, in events per second. Its CPU time is not published.
const INCUMBENT_AT_100: f64 = 55_000.0;
const INCUMBENT_CORES: f64 = 2.0;

#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) batch: usize,
    /// The service's acknowledged events per second, by round.
    pub(super) service: Vec<f64>,
    /// The incumbent's published throughput, measured on another machine of the same class.
    pub(super) incumbent: f64,
    pub(super) wanted: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    /// P1.
    pub(super) throughput: Vec<Comparison>,
    /// P5: open loop at half the batch 1 throughput.
    pub(super) half_load: LoadReport,
    /// P11: the load before the burst.
    pub(super) steady: LoadReport,
    /// P11: a burst of ten times the steady load.
    pub(super) burst: LoadReport,
    /// P11: ten times the batch 1 throughput.
    pub(super) overload: LoadReport,
    /// P3: the worker alone, processing the log of the earlier loads.
    pub(super) drain: Drain,
    /// P2: batch 100 with the whole pipeline.
    pub(super) pipeline: Pipeline,
    /// P4.
    pub(super) freshness: Freshness,
    /// P10.
    pub(super) replays: Replays,
    /// P12.
    pub(super) shares: Shares,
    pub(super) run: Report,
}

#[derive(Debug, Serialize)]
pub(super) struct Drain {
    pub(super) events: u64,
    /// Time until all events could be read, including the start of the worker.
    pub(super) seconds: f64,
    pub(super) worker_cpu_seconds: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Pipeline {
    pub(super) load: LoadReport,
    /// Costs until all events could be read, including the reads that check this.
    pub(super) whole: Vec<Cost>,
}

impl Pipeline {
    /// Returns a process's CPU seconds per million acknowledged events.
    fn cpu_seconds_per_million(&self, name: &str) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "only for display")]
        let millions = self.load.events.get(&Fate::Acked).copied().unwrap_or(0) as f64 / 1e6;
        let cost = self.whole.iter().find(|cost| cost.name == name);
        cost.map_or(0.0, |cost| cost.cpu_seconds) / millions.max(1e-6)
    }
}

/// Returns the median, or 0 for an empty slice.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len() / 2), sorted.len() % 2) {
        (None, _) => 0.0,
        (Some(middle), 1) => *middle,
        (Some(middle), _) => f64::midpoint(*middle, sorted[sorted.len() / 2 - 1]),
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.run)?;
        writeln!(f, "\nP1  acked events/s, gateway and broker, 64 connections, medians of {} rounds", self.rounds())?;
        writeln!(f, "    batch   service  incumbent¹  service ÷ incumbent  target")?;
        for row in &self.throughput {
            let service = median(&row.service);
            let Comparison { batch, incumbent, wanted, .. } = row;
            writeln!(f, "    {batch:>5}{service:>10.0}{incumbent:>12.0}{:>21.2}{wanted:>8.1}", service / incumbent)?;
        }
        writeln!(f, "    ¹ constant: its published figure for another machine of this class")?;
        self.fmt_latencies(f)?;
        self.fmt_pipeline(f)
    }
}

impl BenchReport {
    fn rounds(&self) -> usize {
        self.throughput.first().map_or(0, |row| row.service.len())
    }

    fn fmt_latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = &self.half_load;
        writeln!(f, "P5  half load, {:.0} events/s at batch 1: {}", half.acked_events_per_second, half.latency)?;
        writeln!(f, "    target: p99 ≤ 25 ms, p99.9 ≤ 100 ms; includes up to 1 ms of the timer")?;
        let (steady, burst) = (&self.steady, &self.burst);
        let rss = |load: &LoadReport| load.cost("ingest-gateway").map_or(0.0, |cost| cost.rss_most_mib);
        let (rss_steady, rss_burst) = (rss(steady), rss(burst));
        write!(f, "P11 burst {:.0} → {:.0} events/s: ", steady.acked_events_per_second, burst.acked_events_per_second)?;
        writeln!(f, "{} events not acked (target 0), {} requests not sent", burst.events_not_acked(), burst.never_left)?;
        writeln!(
            f,
            "    RSS {rss_steady:.0} → {rss_burst:.0} MiB (target ≤ {:.0}); {}",
            rss_steady * 1.5 + 256.0,
            burst.latency
        )?;
        let peak = self.throughput.first().map_or(0.0, |row| median(&row.service));
        let goodput = self.overload.acked_events_per_second;
        writeln!(f, "P11 overload: goodput {goodput:.0} events/s, {:.0} % of peak (target ≥ 90 %)", goodput / peak * 100.0)?;
        let Self { overload, .. } = self;
        write!(f, "    {} refusals ({}), ", overload.refusal.count, overload.refusal)?;
        writeln!(f, "{} without Retry-After; {} not sent", overload.without_retry_after, overload.never_left)
    }

    fn fmt_pipeline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drain { events, seconds, worker_cpu_seconds } = self.drain;
        #[expect(clippy::cast_precision_loss, reason = "only for display")]
        let events = events as f64;
        write!(f, "P3  drain: {events:.0} events readable after {seconds:.1} s, {:.0} a second; ", events / seconds)?;
        writeln!(f, "{:.0} per CPU-second of the worker (target ≥ 250000)", events / worker_cpu_seconds.max(0.01))?;
        let of = |name: &str| self.pipeline.cpu_seconds_per_million(name);
        let (gateway, worker, clickhouse) = (of("ingest-gateway"), of("stream-workers"), of("clickhouse"));
        writeln!(f, "P2  whole pipeline at batch 100: {:.0} acked events/s", self.pipeline.load.acked_events_per_second)?;
        write!(f, "    CPU-s/1M: gateway {gateway:.2} + worker {worker:.2} + clickhouse {clickhouse:.2} = ")?;
        writeln!(f, "{:.2}; kafka {:.2}, this {:.2}", gateway + worker + clickhouse, of("kafka"), of("load (this)"))?;
        let incumbent = INCUMBENT_CORES * 1e6 / INCUMBENT_AT_100;
        writeln!(
            f,
            "    until all of it can be read; {:.2} of the incumbent's {incumbent:.1} (target ≤ 0.4), if that fills two cores at \
             {INCUMBENT_AT_100:.0} events/s",
            (gateway + worker + clickhouse) / incumbent
        )?;
        write!(f, "{}{}{}", self.freshness, self.replays, self.shares)
    }
}
