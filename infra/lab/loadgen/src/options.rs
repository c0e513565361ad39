//! What can be typed after `cargo load`; the help text is the documentation.

use crate::chaos::ChaosOptions;
use crate::drive::{Arrivals, Pace};
use crate::stage::place::Where;
use crate::workload::Mix;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Drives the service with load and checks every answer against what was sent
#[derive(Parser, Clone, Debug)]
#[command(name = "load", version)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// One load, as given; ends with 1 when an answer broke a rule
    Run(Box<RunOptions>),
    /// A fixed list of loads on a stack of its own, printed as one table
    Bench(BenchOptions),
    /// What reads cost on a store of its own, filled with a year of reports
    Reads(ReadBenchOptions),
    /// What a body costs its service, and a manifest, by size, shape and nesting, in CPU; needs no server
    Linear(LinearOptions),
    /// What logs of CDNs cost the gateway: lines a second of one core by format, and the memory that a body of 1 GiB takes
    Drains(DrainOptions),
    /// Kills, stops, pauses and cuts off every process of a stack of its own under load; ends with 1 unless every check held (`cargo chaos`)
    Chaos(ChaosOptions),
}

/// How reads are measured.
#[derive(Args, Clone, Debug)]
pub struct ReadBenchOptions {
    /// Reports in the store
    #[arg(long, default_value_t = 12_000_000)]
    pub reports: u64,
    /// One report in so many is about the owner who reads; the others are about other owners
    #[arg(long, default_value_t = 10)]
    pub share: u32,
    /// So many reports, all about the owner: --reports REPORTS --share 1
    #[arg(long, value_name = "REPORTS", conflicts_with_all = ["reports", "share", "growth"])]
    pub owner_reports: Option<u64>,
    /// Days in which the events happened, the last of them today
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub days: u16,
    /// Reports per second that arrive during the last part of the run, in two blocks
    #[arg(long, default_value_t = 3_000)]
    pub ingest: u64,
    /// Ask every read over ten windows, too, and print its status and memory (P6b)
    #[arg(long)]
    pub windows: bool,
    /// Then measure with a tenth of the others' reports and with a tenth of the owner's, and print how reads grow (P7)
    #[arg(long)]
    pub growth: bool,
    /// Instead, the CPU of ClickHouse for each read of an owner without events, as the mean of so many runs
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "100", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["growth", "windows", "owner_reports"])]
    pub plan: Option<u32>,
    /// Timed runs of each read, over windows of all lengths
    #[arg(long, default_value_t = 200)]
    pub runs: usize,
    /// Repeats the reports and windows of an earlier run
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How bodies are measured.
#[derive(Args, Clone, Debug)]
pub struct LinearOptions {
    /// Size of the smallest body; each next one is twice as large
    #[arg(long, value_name = "BYTES", default_value_t = 32 * 1024, value_parser = at_least_a_kilobyte)]
    pub least_bytes: usize,
    /// Size of the largest body, up to what its route takes
    #[arg(long, value_name = "BYTES", default_value_t = 4 * 1024 * 1024)]
    pub most_bytes: usize,
}

/// How logs are measured.
#[derive(Args, Clone, Debug)]
pub struct DrainOptions {
    /// Lines of the body of each format
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    pub lines: u32,
    /// How often service and baseline alternate; the table shows the least CPU of each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
    /// Only the table, which needs no server
    #[arg(long)]
    pub without_gateway: bool,
    /// What the gateway is sent, inflated; in as few bodies as its limits allow
    #[arg(long, value_name = "BYTES", default_value_t = 1024 * 1024 * 1024)]
    pub bytes: u64,
    /// Bytes of each of its lines
    #[arg(long, value_name = "BYTES", default_value_t = 1_074, value_parser = clap::value_parser!(u16).range(700..=8_000))]
    pub line_bytes: u16,
    /// How many bodies are on their way at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub at_once: u8,
    /// Folder of the program `telemetry`, instead of building it
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

/// One load.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// Where the load goes
    #[command(flatten)]
    pub place: Where,
    /// What it is made of
    #[command(flatten)]
    pub load: Load,
    /// How it is carried out
    #[command(flatten)]
    pub conduct: Conduct,
}

/// What a load is made of.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// Open loop: events a second, sent on a fixed schedule; latency counts from the scheduled time
    #[arg(long, value_name = "EVENTS/S", conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Open loop: connections at most; a service takes 1,000 of one address (TELEMETRY_CONNECTIONS_PER_ADDRESS)
    #[arg(long, default_value_t = 900)]
    pub max_connections: usize,
    /// Closed loop: connections, each with one request at a time [default: 64]
    #[arg(long)]
    pub concurrency: Option<usize>,
    /// How long, as in 10s or 2m
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// At most this many events
    #[arg(long)]
    pub events: Option<u64>,
    /// Events in a request
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub batch: u16,
    /// How many roles report each retrieval
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub observers: u8,
    /// Events in a hundred that repeat an earlier one
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub duplicates: u8,
    /// Events in a hundred that happened long ago
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub late: u8,
    /// Content owners
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub tenants: u16,
    /// Zipf exponent of the tenants' shares; 0 is even
    #[arg(long, default_value_t = 0.0)]
    pub skew: f64,
}

/// How a run is carried out.
#[derive(Args, Clone, Debug)]
pub struct Conduct {
    /// Repeats the workload of an earlier run
    #[arg(long)]
    pub seed: Option<u64>,
    /// Longest wait for an answer
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub timeout: Duration,
    /// Longest wait for everything acked to be readable
    #[arg(long, default_value = "120s", value_parser = duration)]
    pub quiesce: Duration,
    /// Pause between the reads of two tenants during the load; a bench pauses for 5 s at least
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub read_every: Duration,
    /// Threads that send
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Also write the result here, to compare runs
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The fixed list.
#[derive(Args, Clone, Debug)]
pub struct BenchOptions {
    /// Folder of the program `telemetry`, instead of building it
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
    /// Length of every load
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// How often each batch size is measured; the table shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
    /// How it is carried out
    #[command(flatten)]
    pub conduct: Conduct,
}

impl BenchOptions {
    /// A bench always runs on a stack of its own.
    pub fn place(&self) -> Where {
        Where { start: true, binaries: self.binaries.clone(), ..Where::default() }
    }
}

impl DrainOptions {
    /// The gateway is one of its own.
    pub fn place(&self) -> Where {
        Where { start: true, binaries: self.binaries.clone(), ..Where::default() }
    }
}

impl ReadBenchOptions {
    /// Replaces `owner_reports` by what it stands for.
    pub fn resolved(&self) -> Self {
        match self.owner_reports {
            Some(reports) => Self { reports, share: 1, ..self.clone() },
            None => self.clone(),
        }
    }
}

impl Load {
    /// What its requests are made of.
    pub fn mix(&self) -> Mix {
        Mix {
            batch: usize::from(self.batch),
            observers: usize::from(self.observers),
            duplicate_percent: u64::from(self.duplicates),
        }
    }

    /// When its requests leave.
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
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn reports_about_the_owner_are_all_reports() {
        let sizes = |arguments: &[&str]| {
            let cli = Cli::parse_from(["load", "reads"].iter().chain(arguments));
            let Command::Reads(options) = cli.command else { panic!("reads were asked for") };
            let options = options.resolved();
            (options.reports, options.share)
        };
        assert_eq!(sizes(&["--owner-reports", "6000"]), (6_000, 1));
        assert_eq!(sizes(&["--reports", "6000", "--share", "7"]), (6_000, 7));
    }

    #[test]
    fn durations_have_units() {
        let millis = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!((millis("10"), millis("1.5s"), millis("250ms"), millis("2m")), (Ok(10_000), Ok(1_500), Ok(250), Ok(120_000)));
        for bad in ["", "s", "1 day", "-1s", "1e400"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
