//! A run's report, with the same content as JSON and as text.

use crate::Verdict;
use crate::drive::{Latencies, LoadResult};
use crate::oracle::{Fate, Oracle, Violation};
use crate::processes::Cost;
use crate::reads::ReadTally;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;
use std::time::Duration;

#[derive(Debug, Serialize)]
pub struct Report {
    pub seed: u64,
    pub machine: Machine,
    pub loads: Vec<LoadReport>,
    pub oracle: OracleReport,
}

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub processors: usize,
    /// Load average over one minute before the run.
    pub load_average_before: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    pub name: String,
    pub seconds: f64,
    /// Events acknowledged with 2xx within the duration, per second.
    pub acked_events_per_second: f64,
    /// Events by outcome. A repeat counts each time.
    pub events: BTreeMap<Fate, u64>,
    pub answers: BTreeMap<String, u64>,
    /// Responses with 429 or 503 but without `Retry-After`.
    pub without_retry_after: u64,
    /// Requests that were due but weren't sent.
    pub never_left: u64,
    pub connections: u64,
    /// Time from the due time (open loop) or from sending (closed loop) to a 2xx.
    pub latency: Quantiles,
    /// Time from sending to a 2xx.
    pub service_time: Quantiles,
    pub refusal: Quantiles,
    /// `latency` for the tenant with the largest share.
    pub busiest_tenant: Quantiles,
    /// `latency` for all other tenants.
    pub other_tenants: Quantiles,
    /// The processes' costs during the load, without later processing.
    pub processes: Vec<Cost>,
    /// CPU seconds of each process per million acknowledged events.
    pub cpu_seconds_per_million: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Quantiles {
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct OracleReport {
    pub checks: u64,
    /// Reads that didn't return 200 and were therefore not checked.
    pub reads_failed: u64,
    pub read_latency: Quantiles,
    /// Seconds from the end of the load until all acknowledged events were readable.
    pub quiesced_after_seconds: f64,
    pub acked: u64,
    pub possible: u64,
    /// First violation of each rule by tenant, and how often the rule was broken.
    pub violations: Vec<(Violation, u64)>,
}

impl From<&Latencies> for Quantiles {
    fn from(latencies: &Latencies) -> Self {
        let ms = |latency: Duration| latency.as_secs_f64() * 1e3;
        Self {
            count: latencies.count(),
            p50_ms: ms(latencies.quantile(0.5)),
            p99_ms: ms(latencies.quantile(0.99)),
            p999_ms: ms(latencies.quantile(0.999)),
            max_ms: ms(latencies.longest()),
        }
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, max {:.1} ms", self.p50_ms, self.p99_ms, self.p999_ms, self.max_ms)
    }
}

impl Machine {
    pub fn now() -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            load_average_before: load.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0),
        }
    }
}

impl LoadReport {
    #[expect(clippy::cast_precision_loss, reason = "only for display")]
    pub fn from_result(name: &str, ridden: &LoadResult, processes: Vec<Cost>) -> Self {
        let LoadResult { tally, elapsed } = ridden;
        let millions = tally.events(Fate::Acked) as f64 / 1e6;
        let per_million = |cost: &Cost| if millions > 0.0 { cost.cpu_seconds / millions } else { 0.0 };
        Self {
            name: name.to_owned(),
            seconds: elapsed.as_secs_f64(),
            acked_events_per_second: tally.events_in_time as f64 / elapsed.as_secs_f64(),
            events: tally.events.clone(),
            answers: tally.answers.clone(),
            without_retry_after: tally.without_retry_after,
            never_left: tally.never_left,
            connections: tally.connections,
            latency: Quantiles::from(&tally.latency),
            service_time: Quantiles::from(&tally.service),
            refusal: Quantiles::from(&tally.refusal),
            busiest_tenant: Quantiles::from(&tally.busiest),
            other_tenants: Quantiles::from(&tally.others),
            cpu_seconds_per_million: processes.iter().map(|cost| (cost.name.clone(), per_million(cost))).collect(),
            processes,
        }
    }

    pub fn events_not_acked(&self) -> u64 {
        self.events.iter().filter(|(fate, _)| **fate != Fate::Acked).map(|(_, events)| events).sum()
    }

    pub fn cost(&self, process: &str) -> Option<&Cost> {
        self.processes.iter().find(|cost| cost.name == process)
    }
}

impl OracleReport {
    pub fn verdict(&self) -> Verdict {
        if self.violations.is_empty() { Verdict::Clean } else { Verdict::Broken }
    }

    pub fn from_oracle(oracle: &Oracle, tenants: usize, reads: &ReadTally, quiesced_after: Duration) -> Self {
        let bounds = || (0..tenants).map(|tenant| oracle.bounds(tenant));
        Self {
            checks: oracle.checks(),
            reads_failed: reads.failed,
            read_latency: Quantiles::from(&reads.latency),
            quiesced_after_seconds: quiesced_after.as_secs_f64(),
            acked: bounds().map(|(acked, _)| acked.total).sum(),
            possible: bounds().map(|(_, possible)| possible.total).sum(),
            violations: oracle.violations().map(|(violation, times)| (violation.clone(), times)).collect(),
        }
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {:.0} acked events/s over {:.1} s", self.name, self.acked_events_per_second, self.seconds)?;
        let count = |fate| self.events.get(&fate).copied().unwrap_or(0);
        let (acked, refused, unknown) = (count(Fate::Acked), count(Fate::Refused), count(Fate::Unknown));
        writeln!(f, "  events   {acked} acked, {refused} refused, {unknown} unknown; {} connections", self.connections)?;
        let answers: Vec<String> = self.answers.iter().map(|(answer, times)| format!("{answer} × {times}")).collect();
        writeln!(f, "  answers  {}", answers.join(", "))?;
        writeln!(f, "  latency  {}", self.latency)?;
        writeln!(f, "  service  {}", self.service_time)?;
        if self.refusal.count > 0 {
            writeln!(f, "  refusals {}; {} without Retry-After", self.refusal, self.without_retry_after)?;
        }
        if self.never_left > 0 {
            writeln!(f, "  {} requests were due but not sent: all connections waited for a response", self.never_left)?;
        }
        if self.other_tenants.count > 0 {
            writeln!(f, "  busiest  {}", self.busiest_tenant)?;
            writeln!(f, "  others   {}", self.other_tenants)?;
        }
        for cost in &self.processes {
            let per_million = self.cpu_seconds_per_million.get(&cost.name).copied().unwrap_or(0.0);
            let share = cost.cpu_seconds / self.seconds * 100.0;
            write!(f, "  {:<16}{:>7.2} CPU-s ({share:>4.0} %)", cost.name, cost.cpu_seconds)?;
            write!(f, "{per_million:>9.2} CPU-s/1M events",)?;
            write!(f, "   RSS {:.0} MiB, most {:.0} MiB", cost.rss_before_mib, cost.rss_most_mib)?;
            writeln!(f, "{}", if cost.is_shared { "   (shared: includes other work)" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for OracleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "oracle: {} responses checked, {} reads failed; summary {}",
            self.checks, self.reads_failed, self.read_latency
        )?;
        write!(f, "  {} distinct events acked, {} possible; ", self.acked, self.possible)?;
        writeln!(f, "all acked events were readable {:.1} s after the load", self.quiesced_after_seconds)?;
        for (violation, times) in &self.violations {
            writeln!(f, "  VIOLATION × {times}: {violation}")?;
        }
        if self.violations.is_empty() {
            writeln!(f, "  no violation")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processors, load_average_before } = self.machine;
        writeln!(f, "seed {}; {processors} processors, load average before {load_average_before:.1}", self.seed)?;
        for load in &self.loads {
            write!(f, "{load}")?;
        }
        write!(f, "{}", self.oracle)
    }
}

/// Writes a result to the file named by `--json`.
pub fn write_json<T: Serialize>(result: &T, file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let mut text = serde_json::to_string_pretty(result)?;
    text.write_char('\n')?;
    fs::write(file, text).map_err(|error| anyhow::anyhow!("--json {}: cannot write the file: {error}", file.display()))
}
