//! What a party to them reads of its own events: the observations that it reported or whose click token bound them become one
//! row per event, told by the observation that represents it, and are filtered by time only then, so that adjacent windows
//! never share an event nor lose one. A windowed read first looks up which keys have any report in the window.
//!
//! Must be made of this file's own words and of the conditions of [`RowFilter`] only: nothing that a caller wrote.

use super::row_filter::RowFilter;
use schemas::store::OBSERVATIONS;

/// Which observation represents its event, smallest first: the agent's, then edge, origin, index, no role; of
/// equal roles the first accepted (the larger version), then the smaller organisation. One number, because comparing
/// tuples is several times slower; and not the UUID itself, because ClickHouse compares its second half first.
/// The role is the reported one: of two reports of one id without a role the first stays.
const PRECEDENCE: &str = "bitShiftLeft(toUInt256(if(source_role = '', 5, toUInt8(source_role))), 192) \
                          + bitShiftLeft(toUInt256(bitNot(version)), 128) + toUInt128(org_id)";

/// What is read of an event: an expression on its representing observation, and its name.
type Shown<'a> = (&'a str, &'a str);

/// The precedence in this read: where a walk has begun, what was accepted later comes after everything else.
pub(super) fn precedence(filter: &RowFilter) -> String {
    let late = filter.is_late.as_ref().map(|is_late| format!("bitShiftLeft(toUInt256({is_late}), 200) + "));
    format!("{}{PRECEDENCE}", late.unwrap_or_default())
}

/// A column as the first observation by `precedence` has it.
pub(super) fn shown_by(precedence: &str, (expression, name): &Shown<'_>) -> String {
    format!("argMin({expression}, {precedence}) AS {name}")
}

/// One row per event in the window: its key, `shown_at`, and the columns asked for.
pub(super) fn retrievals(filter: &RowFilter, shown_columns: &[Shown<'_>], aggregates: &[&str]) -> String {
    let precedence = precedence(filter);
    let shown = |column: &Shown<'_>| shown_by(&precedence, column);
    let mut columns = vec![shown(&("at", "shown_at"))];
    columns.extend(shown_columns.iter().map(shown));
    columns.extend(aggregates.iter().map(|aggregate| (*aggregate).to_owned()));
    format!(
        "SELECT event_key, {columns} FROM {OBSERVATIONS} FINAL WHERE {visible} AND (site, event_key) IN ({candidates}) \
         GROUP BY event_key HAVING {in_time}",
        columns = columns.join(", "),
        visible = filter.visible,
        candidates = candidates(filter),
        in_time = filter.in_time,
    )
}

/// An event of the window has a report in the window; not every such report is of an event of the window. All rows of its key are
/// read, wherever and whenever they happened: one of them may say that it happened elsewhen. Without FINAL they are found by
/// their index or projection, and then by the sorting key.
fn candidates(filter: &RowFilter) -> String {
    let keys = reported_in_window(filter);
    let rows = |found_by: &String| format!("SELECT site, event_key FROM {OBSERVATIONS} WHERE {found_by}{keys}");
    let rows: Vec<String> = filter.found_by.iter().map(rows).collect();
    rows.join(" UNION ALL ")
}

/// Only keys with a report in the window; any without one.
fn reported_in_window(filter: &RowFilter) -> String {
    let Some(reported) = &filter.reported_in_time else { return String::new() };
    let keys = |found_by: &String| format!("SELECT event_key FROM {OBSERVATIONS} WHERE {found_by} AND {reported}");
    let keys: Vec<String> = filter.found_by.iter().map(keys).collect();
    format!(" AND event_key IN ({})", keys.join(" UNION ALL "))
}
