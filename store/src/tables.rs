//! The store's ClickHouse tables: their DDL and row encoding.
//!
//! `encode` and `decode` use the columns in the order of [`EVENT_COLUMNS`], [`REPORT_COLUMNS`] and [`FETCHED_COLUMNS`]. The test
//! `column_lists_match_the_ddl` compares these with the DDL.

mod decode;
mod encode;
mod failed_fetches;

#[cfg(test)]
mod tests;

pub use decode::decode_events;
pub use encode::{ReportContent, corroboration, encode_event, encode_report, owner_fetch};
pub use failed_fetches::{FAILED_FETCH_COLUMNS, FailedFetchRow};

/// Statements that create tables and views, in order. All of them are idempotent.
pub const DDL: &[&str] = &[
    include_str!("../clickhouse/writers.sql"),
    include_str!("../clickhouse/sites.sql"),
    include_str!("../clickhouse/reports.sql"),
    include_str!("../clickhouse/events.sql"),
    include_str!("../clickhouse/failed_fetches.sql"),
    include_str!("../clickhouse/progress.sql"),
    include_str!("../clickhouse/replays.sql"),
    include_str!("../clickhouse/analyst_access.sql"),
    include_str!("../clickhouse/analyst_sites.sql"),
    include_str!("../clickhouse/publisher_events.sql"),
];

/// Bit flags in the first byte of `reports.details`.
const HAS_OWN_URL: u8 = 1;
const IS_OWNERS: u8 = 2;
/// Position of the two bits that contain the code for the signature's result.
const SIGNATURE_SHIFT: u8 = 2;

const SIGNATURE: &str = "Enum8('none' = 0, 'invalid' = 1, 'valid' = 2)";

/// Columns of inserts into `events`, with their types.
pub const EVENT_COLUMNS: &[(&str, &str)] = &[
    ("site", "String"),
    ("at", "DateTime64(3, 'UTC')"),
    ("key", "UInt128"),
    ("home", "UInt32"),
    ("type", "LowCardinality(String)"),
    ("url", "String"),
    ("roles", "UInt8"),
    ("role", "UInt8"),
    ("is_claim", "UInt8"),
    ("representative", "UInt8"),
    ("organization", "UUID"),
    ("platform", "UUID"),
    ("agent", "LowCardinality(String)"),
    ("session", "UInt64"),
    ("link_site", "String"),
    ("is_claimed", "UInt8"),
    ("is_seen", "UInt8"),
    ("bot", "LowCardinality(String)"),
    ("operator", "LowCardinality(String)"),
    ("purpose", "LowCardinality(String)"),
    ("verified", "Enum8('unknown' = 0, 'no' = 1, 'yes' = 2)"),
    ("status", "UInt16"),
    ("bytes", "UInt64"),
    ("signature", SIGNATURE),
    ("other_agents.role", "Array(UInt8)"),
    ("other_agents.platform", "Array(UUID)"),
    ("other_agents.agent", "Array(LowCardinality(String))"),
    ("other_agents.session", "Array(UInt64)"),
    ("reports.organization", "Array(UUID)"),
    ("reports.platform", "Array(UUID)"),
    ("reports.role", "Array(UInt8)"),
    ("reports.drain", "Array(UUID)"),
    ("reports.agent", "Array(LowCardinality(String))"),
    ("reports.session", "Array(UInt64)"),
    ("reports.at", "Array(DateTime64(3, 'UTC'))"),
    ("reports.received", "Array(UInt64)"),
    ("reports.identity", "Array(UInt128)"),
    ("reports.home", "Array(UInt32)"),
    ("reports.details", "Array(String)"),
    ("version", "UInt64"),
    ("is_deleted", "UInt8"),
];

/// Columns of `events` that [`decode_events`] needs, in its order.
pub const FETCHED_COLUMNS: &[&str] = &[
    "site",
    "key",
    "home",
    "type",
    "url",
    "link_site",
    "bot",
    "operator",
    "purpose",
    "verified",
    "status",
    "bytes",
    "reports.organization",
    "reports.platform",
    "reports.role",
    "reports.drain",
    "reports.agent",
    "reports.session",
    "reports.at",
    "reports.received",
    "reports.identity",
    "reports.home",
    "reports.details",
    "is_deleted",
];

/// Columns of inserts into `reports`, with their types.
pub const REPORT_COLUMNS: &[(&str, &str)] = &[
    ("organization", "UUID"),
    ("at", "DateTime64(3, 'UTC')"),
    ("identity", "UInt128"),
    ("home", "UInt32"),
    ("is_issuers", "UInt8"),
    ("group_key", "UInt128"),
    ("received", "UInt64"),
    ("site", "LowCardinality(String)"),
    ("type", "LowCardinality(String)"),
    ("source_role", "UInt8"),
    ("role", "UInt8"),
    ("drain", "UUID"),
    ("platform", "UUID"),
    ("session", "UUID"),
    ("link", "Enum8('' = 0, 'taken' = 1, 'same' = 2, 'other' = 3)"),
    ("link_site", "String"),
    ("agent", "LowCardinality(String)"),
    ("url", "String"),
    ("content_id", "String"),
    ("content_telemetry_id", "String"),
    ("event_id", "String"),
    ("turn_id", "String"),
    ("output_id", "String"),
    ("data", "String"),
    ("extra", "String"),
    ("bot", "LowCardinality(String)"),
    ("operator", "LowCardinality(String)"),
    ("purpose", "LowCardinality(String)"),
    ("verified", "Enum8('unknown' = 0, 'no' = 1, 'yes' = 2)"),
    ("status", "UInt16"),
    ("bytes", "UInt64"),
    ("cache_status", "LowCardinality(String)"),
    ("asn", "UInt32"),
    ("country", "LowCardinality(String)"),
    ("media_type", "LowCardinality(String)"),
    ("bots_version", "LowCardinality(String)"),
    ("signature", SIGNATURE),
    ("signature_reason", "LowCardinality(String)"),
    ("signed_by", "String"),
    ("signature_proof", "String"),
    ("origin_partition", "Int32"),
    ("origin_offset", "Int64"),
    ("version", "UInt64"),
    ("is_deleted", "UInt8"),
];

/// Returns the names and types of columns, as an argument of `input()`.
pub fn structure(columns: &[(&str, &str)]) -> String {
    columns.iter().map(|(name, of)| format!("`{name}` {of}")).collect::<Vec<_>>().join(", ")
}
