//! Options of `cargo load`.

use crate::chaos::ChaosOptions;
use crate::drive::{Arrivals, Pace};
use crate::test_bed::place::TargetOptions;
use crate::workload::Mix;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Drive the service with load and check every response against what was sent
#[derive(Parser, Clone, Debug)]
#[command(name = "load", version)]
pub struct Cli {
    /// Command
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Run one load; exit with 1 if a response breaks a rule
    Run(Box<RunOptions>),
    /// Start the services, run a fixed list of loads and print one table
    Bench(BenchOptions),
    /// Measure reads on a new store with a year of reports
    Reads(ReadBenchOptions),
    /// Measure the CPU time of bodies and manifests by size, shape and nesting; needs no server
    Linear(LinearOptions),
    /// Measure the gateway with CDN logs: lines per second of one core by format, and memory for 1 GiB
    Drains(DrainOptions),
    /// Start a stack, disturb its processes under load, and exit with 1 unless every check passed (`cargo chaos`)
    Chaos(ChaosOptions),
}

/// Options of the read benchmark.
#[derive(Args, Clone, Debug)]
pub struct ReadBenchOptions {
    /// Reports in the store
    #[arg(long, default_value_t = 12_000_000)]
    pub reports: u64,
    /// One of this many reports is about the reading owner; the others are about other owners
    #[arg(long, default_value_t = 10)]
    pub share: u32,
    /// Number of reports, all about the owner: --reports REPORTS --share 1
    #[arg(long, value_name = "REPORTS", conflicts_with_all = ["reports", "share", "growth"])]
    pub owner_reports: Option<u64>,
    /// Days in which the events happened, the last one today
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub days: u16,
    /// Reports per second that arrive during the last part of the run, in two blocks
    #[arg(long, default_value_t = 3_000)]
    pub ingest: u64,
    /// Also run every read over ten periods, and print its status and memory (P6b)
    #[arg(long)]
    pub windows: bool,
    /// Also measure with a tenth of the others' reports and with a tenth of the owner's, and print how reads grow (P7)
    #[arg(long)]
    pub growth: bool,
    /// Measure only ClickHouse's CPU time for each read of an owner without events, as the mean of this many runs
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "100", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["growth", "windows", "owner_reports"])]
    pub plan: Option<u32>,
    /// Timed runs of each read, over periods of all lengths
    #[arg(long, default_value_t = 200)]
    pub runs: usize,
    /// Repeat the reports and periods of an earlier run
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Options of the body benchmark.
#[derive(Args, Clone, Debug)]
pub struct LinearOptions {
    /// Size of the smallest body; each further one is twice as large
    #[arg(long, value_name = "BYTES", default_value_t = 32 * 1024, value_parser = at_least_a_kilobyte)]
    pub least_bytes: usize,
    /// Size of the largest body, up to the limit of its route
    #[arg(long, value_name = "BYTES", default_value_t = 4 * 1024 * 1024)]
    pub most_bytes: usize,
}

/// Options of the log benchmark.
#[derive(Args, Clone, Debug)]
pub struct DrainOptions {
    /// Lines of the body of each format
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    pub lines: u32,
    /// Rounds of service and baseline; the table shows the lowest CPU time of each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
    /// Print only the table, which needs no server
    #[arg(long)]
    pub without_gateway: bool,
    /// Decompressed bytes to send to the gateway, in as few bodies as its limits allow
    #[arg(long, value_name = "BYTES", default_value_t = 1024 * 1024 * 1024)]
    pub bytes: u64,
    /// Bytes per line sent to the gateway
    #[arg(long, value_name = "BYTES", default_value_t = 1_074, value_parser = clap::value_parser!(u16).range(700..=8_000))]
    pub line_bytes: u16,
    /// Concurrent requests
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub at_once: u8,
    /// Folder of the `telemetry` program, instead of building it
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

/// One load.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// Target of the load
    #[command(flatten)]
    pub place: TargetOptions,
    /// Content of the load
    #[command(flatten)]
    pub load: Load,
    /// Other options
    #[command(flatten)]
    pub conduct: Conduct,
}

/// What a load contains.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// Open loop: events per second, sent on a fixed schedule; latency counts from the scheduled time
    #[arg(long, value_name = "EVENTS/S", conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Open loop: maximum connections; a service accepts 1,000 from one address (TELEMETRY_CONNECTIONS_PER_ADDRESS)
    #[arg(long, default_value_t = 900)]
    pub max_connections: usize,
    /// Closed loop: connections, each with one request at a time [default: 64]
    #[arg(long)]
    pub concurrency: Option<usize>,
    /// Duration, as in 10s or 2m
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// Maximum number of events
    #[arg(long)]
    pub events: Option<u64>,
    /// Events per request
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub batch: u16,
    /// Roles that report each retrieval
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub observers: u8,
    /// Percentage of events that repeat an earlier one
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub duplicates: u8,
    /// Percentage of events that happened long ago
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub late: u8,
    /// Content owners
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub tenants: u16,
    /// Zipf exponent of the tenants' shares; 0 is even
    #[arg(long, default_value_t = 0.0)]
    pub skew: f64,
}

/// Options of a run.
#[derive(Args, Clone, Debug)]
pub struct Conduct {
    /// Repeat the workload of an earlier run
    #[arg(long)]
    pub seed: Option<u64>,
    /// Time limit of a request
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub timeout: Duration,
    /// Time limit until all acknowledged events are readable
    #[arg(long, default_value = "120s", value_parser = duration)]
    pub quiesce: Duration,
    /// Pause between the reads of two tenants during the load; at least 5 s in a bench
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub read_every: Duration,
    /// Sending threads
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Also write the result to this file, to compare runs
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Options of the bench.
#[derive(Args, Clone, Debug)]
pub struct BenchOptions {
    /// Folder of the `telemetry` program, instead of building it
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
    /// Duration of every load
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// Rounds per batch size; the table shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
    /// Other options
    #[command(flatten)]
    pub conduct: Conduct,
}

impl BenchOptions {
    /// Returns the target: a bench always starts its own services.
    pub fn place(&self) -> TargetOptions {
        TargetOptions { start: true, binaries: self.binaries.clone(), ..TargetOptions::default() }
    }
}

impl DrainOptions {
    /// Returns the target: the gateway is always started for the run.
    pub fn place(&self) -> TargetOptions {
        TargetOptions { start: true, binaries: self.binaries.clone(), ..TargetOptions::default() }
    }
}

impl ReadBenchOptions {
    /// Replaces `owner_reports` with the equivalent options.
    pub fn resolved(&self) -> Self {
        match self.owner_reports {
            Some(reports) => Self { reports, share: 1, ..self.clone() },
            None => self.clone(),
        }
    }
}

impl Load {
    /// Returns the content of the requests.
    pub fn mix(&self) -> Mix {
        Mix {
            batch: usize::from(self.batch),
            observers: usize::from(self.observers),
            duplicate_percent: u64::from(self.duplicates),
        }
    }

    /// Returns the pace of the requests.
    pub fn pace(&self) -> Pace {
        let batch = u64::from(self.batch);
        let arrivals = match self.rate {
            Some(rate) => Arrivals::Open { per_second: rate / f64::from(self.batch), max_connections: self.max_connections },
            None => Arrivals::Closed { connections: self.concurrency.unwrap_or(64) },
        };
        Pace { arrivals, duration: self.duration, max_requests: self.events.map(|events| events.div_ceil(batch)) }
    }
}

fn at_least_a_kilobyte(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|bytes| *bytes >= 1_024).ok_or_else(|| "write a number of at least 1024".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err("write a number and ms, s, m or h".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "write a number and ms, s, m or h".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn owner_reports_option_sets_count_and_share() {
        let sizes = |arguments: &[&str]| {
            let cli = Cli::parse_from(["load", "reads"].iter().chain(arguments));
            let Command::Reads(options) = cli.command else { panic!("the command is not reads") };
            let options = options.resolved();
            (options.reports, options.share)
        };
        assert_eq!(sizes(&["--owner-reports", "6000"]), (6_000, 1));
        assert_eq!(sizes(&["--reports", "6000", "--share", "7"]), (6_000, 7));
    }

    #[test]
    fn parses_durations_with_units() {
        let millis = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!((millis("10"), millis("1.5s"), millis("250ms"), millis("2m")), (Ok(10_000), Ok(1_500), Ok(250), Ok(120_000)));
        for bad in ["", "s", "1 day", "-1s", "1e400"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
