//! What a drain may send, and by which table its bots are told.
//!
//! Must not be checked here; who reads a limit takes it from this.

use anyhow::Context;
use clap::Args;
use schemas::bots::BotTable;
use std::path::PathBuf;
use std::sync::Arc;

/// Logs of CDNs.
#[derive(Args, Clone, Debug)]
pub struct DrainSettings {
    /// File of bots, their operators and addresses, instead of the bundled one; of the same form
    #[arg(long, env = "TELEMETRY_BOTS_FILE", value_name = "FILE")]
    pub bots_file: Option<PathBuf>,
    /// Largest body of a drain on the wire, in bytes
    #[arg(long, env = "TELEMETRY_DRAIN_WIRE_BYTES", default_value_t = 64 * 1024 * 1024)]
    pub drain_wire_bytes: u64,
    /// Largest body of a drain once inflated, in bytes
    #[arg(long, env = "TELEMETRY_DRAIN_BODY_BYTES", default_value_t = 1024 * 1024 * 1024)]
    pub drain_body_bytes: u64,
    /// Most lines in one body of a drain
    #[arg(long, env = "TELEMETRY_DRAIN_LINES", default_value_t = 1_000_000)]
    pub drain_lines: u64,
    /// Longest line of a drain, in bytes; a longer one is a bad line
    #[arg(long, env = "TELEMETRY_DRAIN_LINE_BYTES", default_value_t = 64 * 1024)]
    pub drain_line_bytes: usize,
    /// Most bodies of drains that are read at a time; more are refused at once. No organisation has more than are left for others
    #[arg(long, env = "TELEMETRY_DRAINS_AT_ONCE", default_value_t = 32)]
    pub drains_at_once: usize,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self {
            bots_file: None,
            drain_wire_bytes: 64 * 1024 * 1024,
            drain_body_bytes: 1024 * 1024 * 1024,
            drain_lines: 1_000_000,
            drain_line_bytes: 64 * 1024,
            drains_at_once: 32,
        }
    }
}

impl DrainSettings {
    /// The table of bots.
    pub fn bots(&self) -> anyhow::Result<Arc<BotTable>> {
        let Some(path) = &self.bots_file else { return Ok(BotTable::bundled()) };
        let named =
            || format!("TELEMETRY_BOTS_FILE={}: not a table of bots; correct it, or leave the setting out", path.display());
        let text = std::fs::read_to_string(path).with_context(named)?;
        Ok(Arc::new(BotTable::parse(&text).with_context(named)?))
    }
}
