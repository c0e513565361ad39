//! The text of a page of events. The index says which are on it; what is wide is read of those alone, from the observations. A page
//! begins at an offset, or behind the last event of the page before.
//!
//! Must not hold what is wide of more than a page, however many events share one time.

use super::{listed, retrievals};
use crate::sql::faces::Face;
use crate::sql::within::Within;
use schemas::store::OBSERVATIONS;

/// The order of events.
const NEWEST_FIRST: &str = "at_ms DESC, id, event_key";

/// Where a walk goes on.
const AFTER: &str = "fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')";
/// What comes after it.
const BEYOND: &str = "at_ms < {after_ms:Int64} \
                      OR (at_ms = {after_ms:Int64} AND (id, event_key) > ({after_id:String}, {after_key:UInt128}))";

/// A page of events, newest first, ties by id.
pub(in crate::sql) fn events(within: &Within) -> String {
    let is_walk = within.late_received.is_some();
    let times = retrievals(within, "at");
    // Of the first and of the last event on the page: what lies between them, or ties with them, may be on it.
    let range = if is_walk {
        format!(
            "SELECT {AFTER} AS newest, least({AFTER}, coalesce(minOrNull(at), {AFTER})) AS oldest \
             FROM (SELECT at FROM {times} WHERE at < {AFTER} ORDER BY at DESC LIMIT {{limit:UInt64}})"
        )
    } else {
        format!(
            "SELECT maxOrNull(at) AS newest, minOrNull(at) AS oldest \
             FROM (SELECT at FROM {times} ORDER BY at DESC LIMIT {{limit:UInt64}} OFFSET {{offset:UInt64}})"
        )
    };
    let whole = format!("SELECT count() AS total, countIf(at > (SELECT newest FROM range)) AS newer FROM {times}");
    let between = format!(
        "SELECT bitOr(bitShiftLeft(toUInt128(key_high), 64), toUInt128(key_low)) AS event_key, toString(site) AS on_site, org, observer, \
           bitNot(received) AS version, role, roles, event_type, toUnixTimestamp64Milli(at) AS at_ms \
         FROM {} WHERE at >= (SELECT oldest FROM range) AND at <= (SELECT newest FROM range)",
        retrievals(within, "key_low, key_high, site, org, observer, received, role, roles, event_type, at"),
    );
    // The version that the index knows; where an older repeat has taken its place in the store meanwhile, that one.
    let named = format!(
        "SELECT * FROM between INNER JOIN ({rows}) AS stored USING (event_key, on_site, org, observer) \
         WHERE found_version >= version ORDER BY found_version LIMIT 1 BY event_key",
        rows = rows_of("between", &[(&Face::Owner.id(), "id")]),
    );
    let on_page = if is_walk {
        format!("SELECT * FROM named WHERE {BEYOND} ORDER BY {NEWEST_FIRST} LIMIT {{limit:UInt64}}")
    } else {
        format!(
            "SELECT * EXCEPT (nth) FROM ( \
               SELECT *, row_number() OVER (ORDER BY {NEWEST_FIRST}) + (SELECT newer FROM whole) AS nth FROM named) \
             WHERE nth > {{offset:UInt64}} AND nth <= {{offset:UInt64}} + {{limit:UInt64}}"
        )
    };
    let columns = Face::Owner.columns(within);
    let columns = columns.iter().map(|(expression, name)| (expression.as_str(), *name));
    let wide: Vec<_> = columns.chain([("data", "reported"), ("extra", "unknown")]).collect();
    // Not sorted before it is cut to one row each: what is wide streams through.
    let items = format!(
        "SELECT *, toString(event_type) AS type, arrayFilter(code -> bitTest(roles, code), CAST([0, 1, 2, 3, 4], 'Array(UInt8)')) AS seen_by \
         FROM (SELECT * FROM on_page INNER JOIN ({rows}) AS stored USING (event_key, on_site, org, observer, found_version) \
               LIMIT 1 BY event_key) AS told \
         CROSS JOIN ( \
           SELECT min(at_ms) AS last_ms, argMax((id, event_key), (-at_ms, id, event_key)) AS last, count() AS held FROM on_page) AS ending",
        rows = rows_of("on_page", &wide),
    );
    let further: [(&str, &str); 5] =
        [("range", &range), ("whole", &whole), ("between", &between), ("named", &named), ("on_page", &on_page)];
    let names = "id, type, session, platform, agent, url, telemetry_id, role, by_other, at_ms, reported, unknown, seen_by AS roles, \
                 last_ms, last.1 AS last_id, last.2 AS last_key, held";
    listed(within, &further, "SELECT total, 1 AS one FROM whole", &items, names, NEWEST_FIRST)
}

/// The observations of the retrievals of `step`: where the index has them, `found_version`, and `columns`.
fn rows_of(step: &str, columns: &[(&str, &str)]) -> String {
    let columns: Vec<String> = columns.iter().map(|(expression, name)| format!("{expression} AS {name}")).collect();
    format!(
        "SELECT event_key, site AS on_site, toUInt128(org_id) AS org, observer, version AS found_version, {columns} \
         FROM {OBSERVATIONS} WHERE (site, event_key) IN (SELECT on_site, event_key FROM {step})",
        columns = columns.join(", "),
    )
}
