//! The text of a page of a party's events: of all of them only times are read, ids of those that may be on the page, and what is wide
//! of those that are. A page begins at an offset, or behind the last event of the page before.
//!
//! Must be made of its own words and of the conditions of [`RowFilter`] only: nothing that a caller wrote.

use super::party::{precedence, retrievals, shown_by};
use super::row_filter::RowFilter;
use super::shown_columns::{self, BY_OTHER, ROLE};
use super::statements::{ON_PAGE, all_of, listed};
use schemas::store::OBSERVATIONS;

/// Offsets from which on a page first asks whether it is beyond the end. Asking makes the first step run twice, not
/// asking reads what is wide of all events there are.
const DEEP: u64 = 10_000;

/// On which hosts a retrieval was reported, for finding its rows again.
const SITES: &str = "groupUniqArray(site) AS sites";

/// The events of the list.
fn listed_events(filter: &RowFilter) -> String {
    let Some(by_other) = &filter.by_other else { return retrievals(filter, &[], &[SITES]) };
    let all = retrievals(filter, &[(BY_OTHER, "is_others")], &[SITES]);
    format!("SELECT * FROM ({all}) WHERE is_others = {by_other}")
}

/// The rows of `retrievals`, each of which names its `sites`.
fn rows_of(filter: &RowFilter, retrievals: &str) -> String {
    format!(
        "{OBSERVATIONS} FINAL PREWHERE (site, event_key) IN (SELECT arrayJoin(sites), event_key FROM {retrievals}) WHERE {visible}",
        visible = filter.visible,
    )
}

/// The order of events.
const NEWEST_FIRST: &str = "at_ms DESC, id, event_key";

/// Those of `retrievals` that may be on the page, by their times: as many as it holds and all that tie with the last.
fn as_new(filter: &RowFilter, offset: u64) -> String {
    if filter.is_late.is_some() {
        let at = "fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')";
        return format!(
            "(SELECT * FROM retrievals WHERE shown_at = {at} UNION ALL SELECT * FROM ( \
               SELECT * FROM retrievals WHERE shown_at < {at} ORDER BY shown_at DESC LIMIT {{limit:UInt64}} WITH TIES))"
        );
    }
    let reached = if offset < DEEP { "" } else { " WHERE (SELECT count() FROM retrievals) > {offset:UInt64}" };
    format!("(SELECT * FROM retrievals{reached} ORDER BY shown_at DESC LIMIT {{through:UInt64}} WITH TIES)")
}

/// Of the events as new as that, those after the last one of the page before.
const BEYOND: &str = " HAVING at_ms < {after_ms:Int64} \
                      OR (at_ms = {after_ms:Int64} AND (id, event_key) > ({after_id:String}, {after_key:UInt128}))";
/// The last event on a page, beside every one that is on it.
const LAST: &str = "(SELECT min(at_ms) AS last_ms, argMax((id, event_key), (-at_ms, id, event_key)) AS last, count() AS held \
                     FROM on_page) AS ending";

/// A page of events, newest first, ties by id. Their rows are found twice: of all that are as new as the last on the page the ids, which
/// decide between equal times, and of those on the page the rest. However many share one time, no more than a page of
/// what is wide is held.
pub(super) fn events(filter: &RowFilter, offset: u64) -> String {
    let retrievals = listed_events(filter);
    let precedence = precedence(filter);
    let shown = |(expression, name): (&str, &str)| shown_by(&precedence, &(expression, name));
    let id = shown_columns::id();
    let order = [("toUnixTimestamp64Milli(at)", "at_ms"), (id.as_str(), "id")].map(shown);
    let on_page = format!(
        "SELECT event_key, {order}, {SITES} FROM {rows} GROUP BY event_key{beyond} ORDER BY {NEWEST_FIRST} {ON_PAGE}",
        beyond = if filter.is_late.is_some() { BEYOND } else { "" },
        order = order.join(", "),
        rows = rows_of(filter, &as_new(filter, offset)),
    );
    let wide = [("toString(event_type)", "type"), (ROLE, "role"), ("data", "reported"), ("extra", "unknown")].map(shown);
    let by_column = shown_columns::columns().map(|(expression, name)| shown((expression.as_str(), name)));
    let items = format!(
        "SELECT * FROM on_page INNER JOIN ( \
           SELECT event_key, {wide}, {by_column}, arraySort(groupUniqArray({ROLE})) AS roles \
           FROM {rows} GROUP BY event_key) AS told USING (event_key) CROSS JOIN {LAST}",
        wide = wide.join(", "),
        by_column = by_column.join(", "),
        rows = rows_of(filter, "on_page"),
    );
    let names = "id, type, session, platform, agent, url, telemetry_id, role, by_other, at_ms, reported, unknown, roles, \
                 last_ms, last.1 AS last_id, last.2 AS last_key, held";
    let steps = format!("WITH retrievals AS MATERIALIZED ({retrievals}), on_page AS MATERIALIZED ({on_page}) ");
    listed(&steps, &all_of("retrievals"), &items, names, NEWEST_FIRST)
}
