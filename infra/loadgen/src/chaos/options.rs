//! What can be typed after `cargo chaos`; the help text is the documentation.
//!
//! Must not do anything but read the command line.

use clap::Args;
use std::path::PathBuf;

/// How hard a chaos run is.
#[derive(Args, Clone, Debug)]
pub struct ChaosOptions {
    /// Repeats an earlier run: faults, their order and their targets follow from it alone
    #[arg(long)]
    pub seed: Option<u64>,
    /// Distinct events to be acknowledged, at least [default: 1000000; with --smoke 15000]
    #[arg(long)]
    pub events: Option<u64>,
    /// Faults to inject [default: 200; with --smoke 16]
    #[arg(long)]
    pub faults: Option<usize>,
    /// A short run, for every change: about a minute
    #[arg(long)]
    pub smoke: bool,
    /// Three brokers that keep every record three times, killed and stopped in turn
    #[arg(long)]
    pub three_brokers: bool,
    /// Print the schedule of the seed and leave
    #[arg(long)]
    pub plan: bool,
    /// Folder of the services' binaries, built with their feature crash-points, instead of building them
    #[arg(long, value_name = "DIR")]
    pub binaries: Option<PathBuf>,
}

impl ChaosOptions {
    /// Events to be acknowledged.
    pub(super) fn events(&self) -> u64 {
        self.events.unwrap_or(if self.smoke { 15_000 } else { 1_000_000 })
    }

    /// Faults to inject.
    pub(super) fn faults(&self) -> usize {
        self.faults.unwrap_or(if self.smoke { 16 } else { 200 })
    }

    /// Brokers to start.
    pub(super) fn brokers(&self) -> usize {
        if self.three_brokers { 3 } else { 1 }
    }
}
