//! The DDL of both stores, so that every crate speaks of the same tables.
//!
//! Must not connect to anything: who applies the DDL, and when, is the services' matter.

/// ClickHouse DDL, in order; every statement is safe to repeat.
pub const CLICKHOUSE_DDL: &[&str] =
    &[include_str!("../clickhouse/observations.sql"), include_str!("../clickhouse/observations_platform.sql")];

/// The table of observations: every figure is read from it.
pub const OBSERVATIONS: &str = "observations";

/// What a table setting must be at least, checked at start-up: table, setting, value.
pub const CLICKHOUSE_REQUIRED_SETTINGS: &[(&str, &str, u64)] = &[(OBSERVATIONS, "non_replicated_deduplication_window", 100)];
