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

/// What a statement with [`shown`] columns begins with: the precedence in this read. Where a walk has begun, what was accepted later
/// comes after everything else. Named once: ClickHouse takes each mention of an expression apart again, which was a fifth of what
/// such a read cost.
pub(super) fn with_precedence(filter: &RowFilter) -> String {
    let late = filter.is_late.as_ref().map(|is_late| format!("bitShiftLeft(toUInt256({is_late}), 200) + "));
    format!("WITH {}{PRECEDENCE} AS precedence", late.unwrap_or_default())
}

/// A column as the first observation by the precedence has it.
pub(super) fn shown((expression, name): &Shown<'_>) -> String {
    format!("argMin({expression}, precedence) AS {name}")
}

/// One row per event in the window: its key, `shown_at`, and the columns asked for.
pub(super) fn retrievals(filter: &RowFilter, shown_columns: &[Shown<'_>], aggregates: &[&str]) -> String {
    let mut columns = vec![shown(&("at", "shown_at"))];
    columns.extend(shown_columns.iter().map(shown));
    columns.extend(aggregates.iter().map(|aggregate| (*aggregate).to_owned()));
    filter.shards.each(&format!(
        "{with_precedence} SELECT event_key, {columns} FROM {first_reports} WHERE {visible} \
         GROUP BY event_key HAVING {in_time}",
        with_precedence = with_precedence(filter),
        columns = columns.join(", "),
        first_reports = filter.shards.first_reports(&found(filter)),
        visible = filter.visible,
        in_time = filter.in_time,
    ))
}

/// On a row: one of those that are read. What it goes by is part of the sorting key, so that rows are left out before FINAL compares
/// them, and of each either every version or none.
fn found(filter: &RowFilter) -> String {
    if filter.reported_in_time.is_some() || filter.by_other.is_some() {
        return format!("(site, event_key) IN ({})", candidates(filter));
    }
    let [own, others] = &filter.found_by;
    format!("({own} OR (site, event_key) IN (SELECT site, event_key FROM {OBSERVATIONS} WHERE {others}))")
}

/// An event of the window has a report in the window, by the one who is to have reported it; not every such report is of an event of
/// the list. All rows of its key are read, wherever and whenever they happened, and whoever reported them: one of them may say that
/// it happened elsewhen, or represent it. Without FINAL they are found by their index or projection, and then by the sorting key.
fn candidates(filter: &RowFilter) -> String {
    let keys = narrowed(filter);
    let rows = |found_by: &String| format!("SELECT site, event_key FROM {OBSERVATIONS} WHERE {found_by}{keys}");
    let rows: Vec<String> = filter.found_by.iter().map(rows).collect();
    rows.join(" UNION ALL ")
}

/// Only keys with a report that may represent an event of the list.
fn narrowed(filter: &RowFilter) -> String {
    let in_time = filter.reported_in_time.as_ref().map(|reported| format!(" AND {reported}")).unwrap_or_default();
    let keys = |reported_by: &String| format!("SELECT event_key FROM {OBSERVATIONS} WHERE {reported_by}{in_time}");
    let keys: Vec<String> = filter.represented_by.iter().map(keys).collect();
    format!(" AND event_key IN ({})", keys.join(" UNION ALL "))
}
