//! Settings of drain bodies.

use super::split::MAX_LINE_BYTES;
use crate::request::limits::at_least;
use clap::Args;

#[derive(Args, Clone, Debug)]
pub struct DrainSettings {
    /// Maximum compressed size of a drain body, in bytes
    #[arg(long, env = "TELEMETRY_DRAIN_WIRE_BYTES", default_value_t = 64 * 1024 * 1024, value_parser = at_least::<u64>(1))]
    pub drain_wire_bytes: u64,
    /// Maximum decompressed size of a drain body, in bytes
    #[arg(long, env = "TELEMETRY_DRAIN_BODY_BYTES", default_value_t = 1024 * 1024 * 1024, value_parser = at_least::<u64>(1))]
    pub drain_body_bytes: u64,
    /// Maximum lines in a drain body
    #[arg(long, env = "TELEMETRY_DRAIN_LINES", default_value_t = 1_000_000, value_parser = at_least::<u64>(1))]
    pub drain_lines: u64,
    /// Maximum length of a log line, in bytes. In longer lines, strings over 16 KiB are truncated; lines that are still too long are bad lines
    #[arg(long, env = "TELEMETRY_DRAIN_LINE_BYTES", default_value_t = MAX_LINE_BYTES, value_parser = at_least::<usize>(1))]
    pub drain_line_bytes: usize,
    /// Maximum concurrent drain bodies; no owner can use more than are left for others
    #[arg(long, env = "TELEMETRY_DRAINS_AT_ONCE", default_value_t = 32, value_parser = at_least::<usize>(1))]
    pub drains_at_once: usize,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self {
            drain_wire_bytes: 64 * 1024 * 1024,
            drain_body_bytes: 1024 * 1024 * 1024,
            drain_lines: 1_000_000,
            drain_line_bytes: MAX_LINE_BYTES,
            drains_at_once: 32,
        }
    }
}
