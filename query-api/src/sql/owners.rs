//! The reads of content owners, each one statement over the index of retrievals (docs/operating/reads.md).
//!
//! Must be made of its own words and of the conditions of [`Within`] only: nothing that a caller wrote. Must read the index in
//! these steps and in no other way: they alone know which of its rows stand for themselves.

mod corroboration;
mod events;
mod funnel;
#[cfg(test)]
mod one_moment;
mod report;
mod summary;
mod urls;

use super::statements::{self, ON_PAGE};
use super::within::Within;
use schemas::store::RETRIEVAL_INDEX;

pub(super) use corroboration::corroboration;
pub(super) use events::events;
pub(crate) use funnel::FunnelBy;
pub(super) use funnel::funnel;
pub(super) use summary::summary;
pub(super) use urls::urls;

/// A report, as the table's columns and as the parts of `others` hold it, in one order.
const REPORT: &str = "rank, received, org, observer, role, at, event_type, url, session, platform, agent, link_site";

/// The steps before every other: what lies in the index on the reader's hosts and cannot be counted as it lies.
///
/// `fresh` is what no compaction has merged yet. `open` is one row per retrieval of the window, in the columns of the table, that a
/// read merges itself: one with a fresh report, on several hosts, with a conversation's turn, or, where a walk has begun, told by a
/// report from after that.
fn steps(within: &Within) -> [(&'static str, String); 2] {
    let on_hosts = &within.on_hosts;
    let (late, or_late) = match &within.late_received {
        Some(late) => (format!("kept.2 >= {late}"), format!(" OR received >= {late}")),
        None => ("0".to_owned(), String::new()),
    };
    let fresh = format!(
        "SELECT site, key_low, key_high, ({REPORT}) AS report FROM {RETRIEVAL_INDEX} WHERE tier = 'delta' AND {on_hosts}"
    );
    // Every report of an open retrieval.
    let reports = format!(
        "SELECT site, key_low, key_high, report FROM fresh \
         UNION ALL \
         SELECT site, key_low, key_high, arrayJoin(arrayConcat([({REPORT})], others)) AS report FROM {RETRIEVAL_INDEX} FINAL \
         WHERE tier = 'base' AND {on_hosts} AND (needs_merge OR key_low IN (SELECT key_low FROM fresh){or_late})"
    );
    // Of each observer the oldest, in the order in which they represent the retrieval.
    let merged = format!(
        "SELECT key_low, key_high, arraySort(groupArray((toUInt8({late}), kept, site))) AS told \
         FROM (SELECT site, key_low, key_high, min((report.2, report)).2 AS kept FROM ({reports}) \
               GROUP BY site, key_low, key_high, report.3, report.4) \
         WHERE NOT startsWith(kept.7, 'turn_') \
         GROUP BY key_low, key_high"
    );
    let first: Vec<String> = (1..).zip(REPORT.split(", ")).map(|(part, name)| format!("told[1].2.{part} AS {name}")).collect();
    let open = format!(
        "SELECT key_low, key_high, told[1].3 AS site, {first}, \
           toUInt8(arrayReduce('groupBitOr', arrayMap(of -> toUInt8(bitShiftLeft(1, of.2.5)), told))) AS roles, \
           arrayMap(of -> of.2, arraySlice(told, 2)) AS others \
         FROM ({merged}) WHERE {in_time}",
        first = first.join(", "),
        in_time = within.row_in_time,
    );
    [("fresh", fresh), ("open", open)]
}

/// Columns of the retrievals in the window, each once: those that lie in the index ready to be counted, and the open ones.
fn retrievals(within: &Within, columns: &str) -> String {
    let not_late = within.late_received.as_ref().map(|late| format!(" AND received < {late}"));
    let reported = within.reported_in_time.as_ref().map(|reported| format!(" AND {reported}"));
    format!(
        "(SELECT {columns} FROM {RETRIEVAL_INDEX} FINAL \
          WHERE tier = 'base' AND {on_hosts} AND NOT needs_merge AND key_low NOT IN (SELECT key_low FROM fresh){not_late} \
            AND {in_time}{reported} \
          UNION ALL SELECT {columns} FROM open)",
        on_hosts = within.on_hosts,
        not_late = not_late.unwrap_or_default(),
        in_time = within.row_in_time,
        reported = reported.unwrap_or_default(),
    )
}

/// The steps as the beginning of a statement.
fn begun(within: &Within) -> String {
    let steps = steps(within).map(|(name, text)| format!("{name} AS MATERIALIZED ({text})"));
    format!("WITH {}", steps.join(", "))
}

/// The items of a page in order, each with the total beside it, after `further` steps.
fn listed(within: &Within, further: &[(&str, &str)], total: &str, items: &str, names: &str, order: &str) -> String {
    let first = steps(within);
    let steps: Vec<_> = first.iter().map(|(name, text)| (*name, text.as_str())).chain(further.iter().copied()).collect();
    statements::listed(&steps, total, items, names, order)
}

/// A page of `items`, a step that holds all of them.
fn page(within: &Within, items: &str, names: &str, order: &str) -> String {
    let on_page = format!("SELECT * FROM items ORDER BY {order} {ON_PAGE}");
    listed(within, &[("items", items)], "SELECT count() AS total, 1 AS one FROM items", &on_page, names, order)
}
