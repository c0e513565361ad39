//! Request limits (docs/api/http.md#size-limits), each a setting with its documented default.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use service_kit::http::BodyLimits;
use std::time::Duration;

pub(crate) const MAX_DATA_LEVELS: usize = 32;
/// Earliest timestamp, in milliseconds UTC: 2000-01-01.
pub(crate) const EARLIEST_AT_MS: i64 = 946_684_800_000;

/// A tenant can have at most half of it, and a body of the default size must fit into that.
const MIN_BODY_MEMORY: u64 = 2 * 1024 * 1024;

/// Rejects values below `least` at startup.
pub(crate) fn at_least<T: TryFrom<u64>>(least: u64) -> RangedU64ValueParser<T> {
    RangedU64ValueParser::new().range(least..)
}

#[derive(Args, Clone, Debug)]
pub struct Limits {
    /// Maximum events per request
    #[arg(long, env = "TELEMETRY_MAX_EVENTS", default_value_t = 1_000, value_parser = at_least::<usize>(1))]
    pub max_events: usize,
    /// Maximum compressed body size, in bytes
    #[arg(long, env = "TELEMETRY_MAX_WIRE_BYTES", default_value_t = 1024 * 1024, value_parser = at_least::<usize>(1))]
    pub max_wire_bytes: usize,
    /// Maximum decompressed body size, in bytes
    #[arg(long, env = "TELEMETRY_MAX_BODY_BYTES", default_value_t = 4 * 1024 * 1024, value_parser = at_least::<usize>(1))]
    pub max_body_bytes: usize,
    /// Memory for request bodies, in bytes, at least 2 MiB; no owner can use more than is left for others
    #[arg(long, env = "TELEMETRY_BODY_MEMORY_BYTES", default_value_t = 256 * 1024 * 1024, value_name = "BYTES", value_parser = at_least::<usize>(MIN_BODY_MEMORY))]
    pub body_memory_bytes: usize,
    /// Requests per second for each key, twice as many for each organization; 0: unlimited
    #[arg(long, env = "TELEMETRY_KEY_RATE", default_value_t = 50_000)]
    pub key_rate: u32,
    /// Bytes per hour that a content owner without a verified domain can write; 0: unlimited
    #[arg(long, env = "TELEMETRY_UNVERIFIED_BYTES", default_value_t = 4 * 1024 * 1024, value_name = "BYTES")]
    pub unverified_bytes: u64,
    /// Bytes of sessions, nonces and coverage per hour that a content owner can store in PostgreSQL; 0: unlimited
    #[arg(long, env = "TELEMETRY_OWNER_BYTES", default_value_t = 256 * 1024 * 1024, value_name = "BYTES")]
    pub owner_bytes: u64,
    /// Bytes of coverage data per hour that a platform or agent can store in PostgreSQL; 0: unlimited
    #[arg(long, env = "TELEMETRY_COVERAGE_BYTES", default_value_t = 8 * 1024 * 1024, value_name = "BYTES")]
    pub coverage_bytes: u64,
    /// Maximum size of an event's `data`, in bytes
    #[arg(long, env = "TELEMETRY_MAX_DATA_BYTES", default_value_t = 64 * 1024, value_parser = at_least::<usize>(1))]
    pub max_data_bytes: usize,
    /// Maximum seconds that a timestamp can be ahead of this machine's clock
    #[arg(long, env = "TELEMETRY_MAX_AHEAD_SECONDS", default_value_t = 3_600)]
    pub max_ahead_seconds: u64,
    /// Apply the strict Content Telemetry 1.0 rules to all keys
    #[arg(long, env = "TELEMETRY_STRICT", default_value_t = false, action = clap::ArgAction::Set)]
    pub strict: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_events: 1_000,
            max_wire_bytes: 1024 * 1024,
            max_body_bytes: 4 * 1024 * 1024,
            body_memory_bytes: 256 * 1024 * 1024,
            key_rate: 50_000,
            unverified_bytes: 4 * 1024 * 1024,
            owner_bytes: 256 * 1024 * 1024,
            coverage_bytes: 8 * 1024 * 1024,
            max_data_bytes: 64 * 1024,
            max_ahead_seconds: 3_600,
            strict: false,
        }
    }
}

impl Limits {
    pub(crate) fn body(&self) -> BodyLimits {
        BodyLimits { wire_bytes: self.max_wire_bytes, inflated_bytes: self.max_body_bytes }
    }

    pub(crate) fn max_ahead(&self) -> Duration {
        Duration::from_secs(self.max_ahead_seconds)
    }
}

#[cfg(test)]
mod tests {
    use crate::Settings;
    use clap::{Args as _, Command};

    #[test]
    fn rejects_a_memory_limit_smaller_than_one_body() {
        let parse = |bytes: u64| {
            let command = Settings::augment_args(Command::new("gateway")).mut_args(|argument| argument.required(false));
            command.try_get_matches_from(["gateway", &format!("--body-memory-bytes={bytes}")]).map_err(|error| error.to_string())
        };
        let refused = parse(super::MIN_BODY_MEMORY - 1).unwrap_err();
        assert!(refused.contains("'--body-memory-bytes <BYTES>': 2097151 is not in 2097152.."), "{refused}");
        assert!(parse(super::MIN_BODY_MEMORY).is_ok());
    }
}
