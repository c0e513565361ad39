//! The retrievals of an owner's read, each told by the report that represents it, out of both tiers of the index
//! (docs/operating/reads.md#the-index).
//!
//! Must name each step once or twice: ClickHouse analyses a step anew wherever it is named, with everything beneath.
//!
//! - `fresh`: the reports that no compaction has merged yet.
//! - `open`: the retrievals that the read merges itself: those of fresh reports, those that say so (`needs_merge`), and on a walk
//!   those with a report that was received after it began. Of each observer the oldest report; without conversations' turns,
//!   which are nobody's but the agent's (docs/api/reads.md#who-may-read); by the key alone, because an id that is reported again
//!   for another host of the owner is the same event.
//! - The retrievals are the rows of the base that are not open, and the open ones.

use super::owned::Owned;
use super::shown_columns::NONE;

/// A report as a tuple, whose fields are named in steps by their places.
const REPORT: [&str; 12] =
    ["rank", "received", "org", "observer", "role", "at", "event_type", "url", "session", "platform", "agent", "link_site"];

/// Something that is told of a retrieval: of a row of the base, and of an open one.
pub(super) struct Column {
    base: String,
    open: String,
}

fn place(field: &str) -> usize {
    REPORT.iter().position(|name| *name == field).map_or(0, |place| place + 1)
}

/// As the representing report has it, under its own name.
pub(super) fn shown(field: &str) -> Column {
    Column { base: field.to_owned(), open: format!("told[1].{} AS {field}", place(field)) }
}

/// As each report has it, the representing one first, in an array named `all_…`.
fn of_all(field: &str) -> Column {
    Column {
        base: format!("arrayPushFront(others.{field}, {field}) AS all_{field}"),
        open: format!("arrayMap(report -> report.{}, told) AS all_{field}", place(field)),
    }
}

/// A bit for each role that saw it, as `roles`.
pub(super) fn roles() -> Column {
    let open = "toUInt8(arrayReduce('groupBitOr', arrayMap(report -> toUInt8(bitShiftLeft(1, report.5)), told))) AS roles";
    Column { base: "roles".to_owned(), open: open.to_owned() }
}

/// Which reports count, as `known`: when each was received, by whom, and as which observer.
pub(super) fn identities() -> Column {
    let base = "arrayZip(arrayPushFront(others.received, received), arrayPushFront(others.org, org), \
                arrayPushFront(others.observer, observer)) AS known";
    let open = "arrayMap(report -> (report.2, report.3, report.4), told) AS known";
    Column { base: base.to_owned(), open: open.to_owned() }
}

/// On which site it counts, as `site`.
pub(super) fn site() -> Column {
    Column { base: "site".to_owned(), open: "first_site AS site".to_owned() }
}

/// Where its rows lie: `site` and `event_key`.
pub(super) fn key() -> [Column; 2] {
    let key = "bitOr(bitShiftLeft(toUInt128(key_high), 64), toUInt128(key_low)) AS event_key";
    [site(), Column { base: key.to_owned(), open: key.to_owned() }]
}

/// The steps that [`retrievals`] is made of, and further ones.
pub(super) fn with(owned: &Owned, further: &[(&str, &str)]) -> String {
    let (fresh, open) = (fresh(owned), open(owned));
    let steps = [("fresh", fresh.as_str()), ("open", open.as_str())].into_iter().chain(further.iter().copied());
    let steps: Vec<String> = steps.map(|(name, text)| format!("{name} AS MATERIALIZED ({text})")).collect();
    format!("WITH {} ", steps.join(", "))
}

fn fresh(owned: &Owned) -> String {
    format!(
        "SELECT site, key_low, key_high, ({report}) AS report FROM retrieval_index WHERE tier = 'delta' AND {on_hosts}",
        report = REPORT.join(", "),
        on_hosts = owned.on_hosts,
    )
}

/// On a row of the base: its key has a report of after the walk began.
fn has_late(owned: &Owned) -> Option<String> {
    let late = owned.late_from.as_ref()?;
    Some(format!("(received >= {late} OR arrayExists(received -> received >= {late}, others.received))"))
}

fn open(owned: &Owned) -> String {
    let or_late = has_late(owned).map(|has_late| format!(" OR {has_late}")).unwrap_or_default();
    // Smallest first; what a walk is not to be moved by comes after everything else.
    let (first, told) = match &owned.late_from {
        None => ("kept".to_owned(), "arraySort(groupArray(kept))".to_owned()),
        Some(late) => {
            (format!("(kept.2 >= {late}, kept)"), format!("arraySort(report -> (report.2 >= {late}, report), groupArray(kept))"))
        }
    };
    // Where they lie is looked for first, in few columns and in every version of a row, which finds too many and none too few:
    // FINAL would read all columns of all of the owner's rows.
    let are_open = format!(
        "tier = 'base' AND {on_hosts} AND (needs_merge OR key_low IN (SELECT key_low FROM fresh){or_late})",
        on_hosts = owned.on_hosts,
    );
    format!(
        "SELECT key_low, key_high, argMin(site, {first}) AS first_site, {told} AS told FROM ( \
           SELECT site, key_low, key_high, min((report.2, report)).2 AS kept FROM ( \
             SELECT site, key_low, key_high, report FROM fresh \
             UNION ALL \
             SELECT site, key_low, key_high, arrayJoin(arrayConcat([({report})], others)) AS report FROM retrieval_index FINAL \
             WHERE {are_open} AND (site, placed_at) IN (SELECT site, placed_at FROM retrieval_index WHERE {are_open})) \
           GROUP BY site, key_low, key_high, report.3, report.4) \
         WHERE NOT startsWith(kept.7, 'turn_') GROUP BY key_low, key_high",
        report = REPORT.join(", "),
    )
}

/// One row per retrieval in the window and in the owner's time.
pub(super) fn retrievals(owned: &Owned, columns: &[Column]) -> String {
    let list = |text: fn(&Column) -> &str| columns.iter().map(text).collect::<Vec<_>>().join(", ");
    let but_late = has_late(owned).map(|has_late| format!(" AND NOT {has_late}")).unwrap_or_default();
    format!(
        "SELECT {base} FROM retrieval_index FINAL \
         WHERE tier = 'base' AND {on_hosts} AND NOT needs_merge AND key_low NOT IN (SELECT key_low FROM fresh){but_late} \
           AND {in_window}{is_wanted} \
         UNION ALL \
         SELECT {open} FROM open WHERE {open_in_window}{open_is_wanted}",
        base = list(|column| &column.base),
        open = list(|column| &column.open),
        on_hosts = owned.on_hosts,
        in_window = owned.in_window("site", "at"),
        is_wanted = owned.is_wanted(str::to_owned, reporter),
        open_in_window = owned.in_window("first_site", "told[1].6"),
        open_is_wanted = owned.is_wanted(|field| format!("told[1].{}", place(field)), reporter),
    )
}

/// When each report of a server happened, in the window: one row each, as `happened`.
pub(super) fn seen_by_servers(owned: &Owned) -> String {
    format!(
        "SELECT happened FROM ( \
           SELECT site, arrayJoin(arrayFilter((at, role) -> role IN ({SERVERS}), arrayPushFront(others.at, at), \
             arrayPushFront(others.role, role))) AS happened \
           FROM retrieval_index FINAL \
           WHERE tier = 'base' AND {on_hosts} AND NOT needs_merge AND key_low NOT IN (SELECT key_low FROM fresh) \
           UNION ALL \
           SELECT first_site, arrayJoin(arrayMap(report -> report.6, arrayFilter(report -> report.5 IN ({SERVERS}), told))) FROM open) \
         WHERE {in_window}",
        on_hosts = owned.on_hosts,
        in_window = owned.in_window("site", "happened"),
    )
}

/// The roles of servers: edge, origin, index.
const SERVERS: &str = "2, 3, 4";

fn renamed(field: &str, name: &str) -> Column {
    Column { base: format!("{field} AS {name}"), open: format!("told[1].{} AS {name}", place(field)) }
}

/// The organisation as the table of observations has it.
pub(super) fn reporter(org: &str) -> String {
    format!("reinterpretAsUUID(bitOr(bitShiftLeft({org}, 64), bitShiftRight({org}, 64)))")
}

/// One row per retrieval with what an owner is told of each of its reports, the representing one first: `all_role`,
/// `all_org`, `sessions`, `platforms`, `agents`, and whether an agent stands behind it (`are_agents`), without which it names no agent
/// (docs/api/counting.md#figures). A session is its digest, 0 for none.
pub(super) fn reports(owned: &Owned, columns: Vec<Column>) -> String {
    let all = ["role", "org", "platform", "agent", "session", "link_site", "at"].map(of_all);
    let columns: Vec<Column> = columns.into_iter().chain(all).collect();
    format!(
        "SELECT * EXCEPT (all_platform, all_agent, all_session, all_link_site, all_at, are_told), \
           arrayMap((is_told, of) -> is_told * of, are_told, all_session) AS sessions, \
           arrayMap((is_told, of, by) -> if(is_told, of, {reporter}), are_told, all_platform, all_org) AS platforms, \
           arrayMap((is_told, of) -> if(is_told, toString(of), ''), are_told, all_agent) AS agents, \
           arrayMap((role, of) -> role = 1 OR of != 0, all_role, sessions) AS are_agents \
         FROM (SELECT *, arrayMap((link, happened) -> {may_tell}, all_link_site, all_at) AS are_told FROM ({retrievals}))",
        reporter = reporter("by"),
        may_tell = owned.may_tell("link", "happened"),
        retrievals = retrievals(owned, &columns),
    )
}

/// Of each retrieval whose agent claims it, and which: `claimant` and `claimed_by`; nobody where no agent stands behind the
/// report that represents it. Beside the columns that are asked for.
pub(super) fn claims(owned: &Owned, columns: Vec<Column>) -> String {
    let told =
        ["role", "org", "platform", "agent", "session", "link_site", "at"].map(|field| renamed(field, &format!("its_{field}")));
    let columns: Vec<Column> = columns.into_iter().chain(told).collect();
    format!(
        "SELECT *, its_role = 1 OR (its_role = 0 AND is_told AND its_session != 0) AS is_claim, \
           multiIf(NOT is_claim, {NONE}, is_told, its_platform, {reporter}) AS claimant, \
           if(is_claim AND is_told, toString(its_agent), '') AS claimed_by \
         FROM (SELECT *, {may_tell} AS is_told FROM ({retrievals}))",
        reporter = reporter("its_org"),
        may_tell = owned.may_tell("its_link_site", "its_at"),
        retrievals = retrievals(owned, &columns),
    )
}
