//! Options of `cargo chaos`.

use super::plan::{Outage, Plan};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Default events per second during an outage.
const OUTAGE_PACE: u64 = 300;

/// Size of a chaos run.
#[derive(Args, Clone, Debug)]
pub struct ChaosOptions {
    /// Repeat the faults of an earlier run, in the same order and with the same targets
    #[arg(long)]
    pub seed: Option<u64>,
    /// Minimum number of distinct acknowledged events [default: 1000000; with --smoke 8000, with --outage 300 per second]
    #[arg(long)]
    pub events: Option<u64>,
    /// Faults to inject [default: 200; with --smoke 10]
    #[arg(long)]
    pub faults: Option<usize>,
    /// Short run of about a minute, for every change
    #[arg(long)]
    pub smoke: bool,
    /// Run three brokers with three replicas, which are killed and stopped in turn
    #[arg(long)]
    pub three_brokers: bool,
    /// Run two ClickHouse servers that share the reports (shards), each with two workers
    #[arg(long)]
    pub two_shards: bool,
    /// Inject one long outage of this store instead of many faults (PostgreSQL is paused)
    #[arg(long, value_enum, conflicts_with_all = ["faults", "smoke"])]
    pub outage: Option<Outage>,
    /// Length of the outage in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "outage")]
    pub outage_seconds: u64,
    /// Print the plan of the seed and exit
    #[arg(long)]
    pub plan: bool,
    /// Folder with a `telemetry` binary that was built with `crash-points`; built by default
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

impl ChaosOptions {
    pub(super) fn events(&self) -> u64 {
        self.events.unwrap_or(match self.outage {
            Some(_) => self.outage_seconds * OUTAGE_PACE,
            None if self.smoke => 8_000,
            None => 1_000_000,
        })
    }

    pub(super) fn faults(&self) -> usize {
        self.faults.unwrap_or(if self.smoke { 10 } else { 200 })
    }

    pub(super) fn plan(&self, seed: u64) -> Plan {
        match self.outage {
            Some(outage) => Plan::outage(seed, outage, Duration::from_secs(self.outage_seconds)),
            None => Plan::new(seed, self.faults(), self.brokers(), self.shards()),
        }
    }

    pub(super) fn brokers(&self) -> usize {
        if self.three_brokers { 3 } else { 1 }
    }

    pub(super) fn shards(&self) -> usize {
        if self.two_shards { 2 } else { 1 }
    }
}
