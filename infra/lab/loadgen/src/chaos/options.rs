//! What can be typed after `cargo chaos`; the help text is the documentation.

use super::plan::{Outage, Plan};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Events a second of an outage, when none are asked for.
const OUTAGE_PACE: u64 = 300;

/// How hard a chaos run is.
#[derive(Args, Clone, Debug)]
pub struct ChaosOptions {
    /// Repeats an earlier run: faults, their order and their targets follow from it alone
    #[arg(long)]
    pub seed: Option<u64>,
    /// Distinct events to be acknowledged, at least [default: 1000000; with --smoke 8000, with --outage 300 a second]
    #[arg(long)]
    pub events: Option<u64>,
    /// Faults to inject [default: 200; with --smoke 10]
    #[arg(long)]
    pub faults: Option<usize>,
    /// A short run, for every change: about a minute
    #[arg(long)]
    pub smoke: bool,
    /// Three brokers that keep every record three times, killed and stopped in turn
    #[arg(long)]
    pub three_brokers: bool,
    /// Two ClickHouse servers that share the reports (shards), each with two workers of its own
    #[arg(long)]
    pub two_shards: bool,
    /// Instead of many faults one long one: this store is away (PostgreSQL: stopped in its tracks) and comes back
    #[arg(long, value_enum, conflicts_with_all = ["faults", "smoke"])]
    pub outage: Option<Outage>,
    /// How long it is away, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "outage")]
    pub outage_seconds: u64,
    /// Print the schedule of the seed and leave
    #[arg(long)]
    pub plan: bool,
    /// Folder of the program `telemetry`, built with its feature crash-points, instead of building it
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

impl ChaosOptions {
    /// Events to be acknowledged.
    pub(super) fn events(&self) -> u64 {
        self.events.unwrap_or(match self.outage {
            Some(_) => self.outage_seconds * OUTAGE_PACE,
            None if self.smoke => 8_000,
            None => 1_000_000,
        })
    }

    /// Faults to inject.
    pub(super) fn faults(&self) -> usize {
        self.faults.unwrap_or(if self.smoke { 10 } else { 200 })
    }

    /// The schedule of a seed.
    pub(super) fn plan(&self, seed: u64) -> Plan {
        match self.outage {
            Some(outage) => Plan::outage(seed, outage, Duration::from_secs(self.outage_seconds)),
            None => Plan::of(seed, self.faults(), self.brokers(), self.shards()),
        }
    }

    /// Brokers to start.
    pub(super) fn brokers(&self) -> usize {
        if self.three_brokers { 3 } else { 1 }
    }

    /// ClickHouse servers to start.
    pub(super) fn shards(&self) -> usize {
        if self.two_shards { 2 } else { 1 }
    }
}
