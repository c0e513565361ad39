//! Limits for records in flight, and spill settings.

use crate::request::limits::at_least;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone, Debug)]
pub struct Durability {
    /// Folder for records accepted while Kafka is unavailable; one per process, on a disk that honors fsync [default: spill]
    #[arg(long, env = "TELEMETRY_SPILL_DIR", value_name = "DIR")]
    pub spill_dir: Option<PathBuf>,
    /// Maximum size of the spill, in bytes; 0: no spill, so writes fail while Kafka is unavailable
    #[arg(long, env = "TELEMETRY_SPILL_MAX_BYTES", default_value_t = 4 * 1024 * 1024 * 1024)]
    pub spill_max_bytes: u64,
    /// Maximum unacknowledged bytes sent to Kafka; further records go to the spill
    #[arg(long, env = "TELEMETRY_MAX_UNACKED_BYTES", default_value_t = 64 * 1024 * 1024, value_parser = at_least::<usize>(1))]
    pub max_unacked_bytes: usize,
    /// Maximum concurrent requests; one organization can use at most half of them
    #[arg(long, env = "TELEMETRY_MAX_IN_PROGRESS", default_value_t = 4_096, value_parser = at_least::<usize>(1))]
    pub max_in_progress: usize,
}

impl Durability {
    /// The spill folder, or `None` if the spill is disabled.
    pub(crate) fn spill_folder(&self) -> Option<PathBuf> {
        (self.spill_max_bytes > 0).then(|| self.spill_dir.clone().unwrap_or_else(|| PathBuf::from("spill")))
    }
}

impl Default for Durability {
    fn default() -> Self {
        Self {
            spill_dir: None,
            spill_max_bytes: 4 * 1024 * 1024 * 1024,
            max_unacked_bytes: 64 * 1024 * 1024,
            max_in_progress: 4_096,
        }
    }
}
