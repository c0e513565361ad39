//! Statements that insert rows. The rows follow a statement in one body, which the server reads before the statement begins.

use std::sync::LazyLock;
use store::tables::{EVENT_COLUMNS, FAILED_FETCH_COLUMNS, REPORT_COLUMNS};

/// Names and types, in the order in which rows are encoded.
type Columns = [(&'static str, &'static str)];

const SITE_COLUMNS: &Columns = &[("above", "String"), ("site", "String")];
/// Those of `progress` but `at`.
const PROGRESS_COLUMNS: &Columns = &[
    ("topic", "String"),
    ("beat", "UInt64"),
    ("complete", "UInt64"),
    ("partitions", "Array(Int32)"),
    ("next", "Array(Int64)"),
    ("since", "Array(Int64)"),
    ("records", "Array(UInt64)"),
    ("events", "Array(UInt64)"),
    ("rejected_records", "Array(UInt64)"),
    ("rejected_events", "Array(UInt64)"),
    ("suspect_partition", "Int32"),
    ("suspect_offset", "Int64"),
    ("suspect_deaths", "UInt32"),
];
/// Those of `replays` but `at`.
const REPLAY_COLUMNS: &Columns = &[
    ("topic", "String"),
    ("id", "UUID"),
    ("requested", "DateTime64(3, 'UTC')"),
    ("organizations", "Array(UUID)"),
    ("rate", "UInt32"),
    ("partitions", "Array(Int32)"),
    ("next", "Array(Int64)"),
    ("until", "Array(Int64)"),
    ("records", "UInt64"),
    ("events", "UInt64"),
    ("unreadable", "UInt64"),
    ("quarantined", "UInt64"),
    ("changed_events", "UInt64"),
    ("changed_reports", "UInt64"),
    ("starts", "UInt32"),
    ("status", "Int8"),
    ("message", "String"),
    ("version", "UInt64"),
];

/// Fails the statements of a writer that another one has replaced.
const FENCE: &str = "WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0\n";

pub(super) static SITES: LazyLock<String> = LazyLock::new(|| insert("sites", SITE_COLUMNS, NOTHING, FENCE));
pub(super) static REPORTS: LazyLock<String> = LazyLock::new(|| insert("reports", REPORT_COLUMNS, NOTHING, FENCE));
pub(super) static EVENTS: LazyLock<String> = LazyLock::new(|| insert("events", EVENT_COLUMNS, NOTHING, FENCE));
pub(super) static FAILED_FETCHES: LazyLock<String> =
    LazyLock::new(|| insert("failed_fetches", FAILED_FETCH_COLUMNS, NOTHING, FENCE));
pub(super) static PROGRESS: LazyLock<String> = LazyLock::new(|| insert("progress", PROGRESS_COLUMNS, TIME, FENCE));
/// The newest row of a replay, inserted by the active writer.
pub(super) static REPLAY: LazyLock<String> = LazyLock::new(|| insert("replays", REPLAY_COLUMNS, TIME, FENCE));
/// The first row of a replay, inserted by the command. It changes no other table, so it needs no fence.
pub(super) static REPLAY_REQUEST: LazyLock<String> = LazyLock::new(|| insert("replays", REPLAY_COLUMNS, TIME, ""));

/// Name and value of a column that the server fills.
type Filled = (&'static str, &'static str);

const NOTHING: Filled = ("", "");
const TIME: Filled = (", at", ", now64(3, 'UTC')");

fn insert(table: &str, columns: &Columns, (filled, value): Filled, condition: &str) -> String {
    let names: Vec<String> = columns.iter().map(|(name, _)| format!("`{name}`")).collect();
    let types: Vec<String> = columns.iter().map(|(name, of)| format!("`{name}` {of}")).collect();
    let (names, types) = (names.join(", "), types.join(", ").replace('\'', "\\'"));
    format!("INSERT INTO {table}\n({names}{filled})\nSELECT *{value} FROM input('{types}')\n{condition}FORMAT RowBinary\n")
}

#[cfg(test)]
mod tests {
    use store::tables::FETCHED_COLUMNS;

    #[test]
    fn fetches_select_the_decoded_columns() {
        let sql: String = include_str!("sql/fetch.sql").split_whitespace().collect();
        assert!(sql.contains(&format!("SELECT{}FROMevents", FETCHED_COLUMNS.join(","))), "{sql}");
    }
}
