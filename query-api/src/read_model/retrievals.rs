//! The retrievals of an owner's read, each told by the report that represents it, out of both tiers of the index
//! (docs/operating/reads.md#the-index).
//!
//! Must name each step once or twice: ClickHouse analyses a step anew wherever it is named, with everything beneath.
//!
//! - `unmerged`: the keys that the read merges itself: those with a report that no compaction has merged yet, those whose row says
//!   so (`needs_merge`), in a window or between further ends those with a report far from their place (`moved`), and on a walk those with a report that was
//!   received after it began. A key too many does no harm.
//! - `open`: the retrievals of these keys, out of their rows in both tiers. Of each observer the oldest report; without
//!   conversations' turns, which are nobody's but the agent's (docs/api/reads.md#who-may-read); by the key alone, because an id that
//!   is reported again for another host of the owner is the same event.
//! - The retrievals are the rows of the base whose keys are not in `unmerged`, and the open ones.

use super::owned::Owned;
use super::row_filter::Bound;
use super::shown_columns::NONE;

/// A report as a tuple, whose fields are named in steps by their places.
const REPORT: [&str; 12] =
    ["rank", "received", "org", "observer", "role", "at", "event_type", "url", "session", "platform", "agent", "link_site"];

/// Something that is told of a retrieval: of a row of the base, and of an open one.
#[derive(Clone)]
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

/// What it counts as, as `shape`: [`super::shapes`] reads it.
pub(super) fn shape() -> Column {
    let open = format!(
        "CAST(toString((toString(told[1].7), arrayMap(report -> (report.5, {reporter}, report.10, toString(report.11), \
           toString(report.12), report.9 != 0), told))), 'LowCardinality(String)') AS shape",
        reporter = reporter("report.3"),
    );
    Column { base: "shape".to_owned(), open }
}

/// The session of the report that represents it, and those of the others: `session` and `others_session`; 0 for none.
pub(super) fn session_of_each() -> [Column; 2] {
    let open = "arrayMap(report -> report.9, arraySlice(told, 2)) AS others_session".to_owned();
    [shown("session"), Column { base: "others.session AS others_session".to_owned(), open }]
}

/// The sessions of its reports that an owner is told, as `sessions`.
pub(super) fn sessions(owned: &Owned) -> Column {
    let base = format!(
        "arrayFilter(of -> of != 0, arrayPushFront(arrayMap((link, happened, of) -> if({of_others}, of, 0), \
           others.link_site, others.at, others.session), if({of_first}, session, 0))) AS sessions",
        of_others = owned.may_tell("link", "happened"),
        of_first = owned.may_tell("link_site", "at"),
    );
    let open = format!(
        "arrayFilter(of -> of != 0, arrayMap(report -> if({}, report.9, 0), told)) AS sessions",
        owned.may_tell("report.12", "report.6")
    );
    Column { base, open }
}

/// Of each report, the representing one first, whether an owner is told whose click it was, as `are_told`.
pub(super) fn told_of_each(owned: &Owned) -> Column {
    let base = format!(
        "arrayPushFront(arrayMap((link, happened) -> {of_others}, others.link_site, others.at), {of_first}) AS are_told",
        of_others = owned.may_tell("link", "happened"),
        of_first = owned.may_tell("link_site", "at"),
    );
    let open = format!("arrayMap(report -> {}, told) AS are_told", owned.may_tell("report.12", "report.6"));
    Column { base, open }
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

/// The steps that [`retrievals`] is made of. Over several shards each works them off by itself ([`whole`]).
pub(super) fn with(owned: &Owned) -> String {
    if owned.shards.is_one() { of_both_tiers(owned) } else { String::new() }
}

/// The same for [`retrievals_near`], which one server alone is asked for.
pub(super) fn with_moved(owned: &Owned) -> String {
    steps(&unmerged(owned, true), owned)
}

fn of_both_tiers(owned: &Owned) -> String {
    steps(&unmerged(owned, !owned.window().is_empty()), owned)
}

fn steps(unmerged: &str, owned: &Owned) -> String {
    format!("WITH unmerged AS MATERIALIZED ({unmerged}), open AS MATERIALIZED ({}) ", open(owned))
}

/// A statement over [`retrievals_here`] each row of which is told of one key alone: over several shards, the rows of all of them.
pub(super) fn whole(owned: &Owned, statement: &str) -> String {
    if owned.shards.is_one() {
        return statement.to_owned();
    }
    owned.shards.each(&format!("{}{statement}", of_both_tiers(owned)))
}

/// In any version of a row, because a newer one is of the same key.
fn unmerged(owned: &Owned, also_moved: bool) -> String {
    let has_late = owned
        .late_from
        .as_ref()
        .map(|late| format!(" OR received >= {late} OR arrayExists(received -> received >= {late}, others.received)"));
    format!(
        "SELECT key_low FROM retrieval_index WHERE (tier = 'delta' OR needs_merge{or_moved}{has_late}) AND {on_hosts}",
        or_moved = if also_moved { " OR moved" } else { "" },
        has_late = has_late.unwrap_or_default(),
        on_hosts = owned.on_hosts,
    )
}

fn open(owned: &Owned) -> String {
    // Smallest first; what a walk is not to be moved by comes after everything else.
    let (first, told) = match &owned.late_from {
        None => ("kept".to_owned(), "arraySort(groupArray(kept))".to_owned()),
        Some(late) => {
            (format!("(kept.2 >= {late}, kept)"), format!("arraySort(report -> (report.2 >= {late}, report), groupArray(kept))"))
        }
    };
    // The key is part of the place of a row: what is filtered by it before rows are replaced is filtered rightly, and of
    // all other rows no further column is read.
    format!(
        "SELECT key_low, key_high, argMin(site, {first}) AS first_site, {told} AS told FROM ( \
           SELECT site, key_low, key_high, min((report.2, report)).2 AS kept FROM ( \
             SELECT site, key_low, key_high, arrayJoin(arrayConcat([({report})], others)) AS report FROM retrieval_index FINAL \
             PREWHERE key_low IN (SELECT key_low FROM unmerged){is_below} WHERE {on_hosts}) \
           GROUP BY site, key_low, key_high, report.3, report.4) \
         WHERE NOT startsWith(kept.7, 'turn_') GROUP BY key_low, key_high",
        report = REPORT.join(", "),
        is_below = owned.shards.is_below_watermark(),
        on_hosts = owned.on_hosts,
    )
}

/// One row per retrieval in the window and in the owner's time.
pub(super) fn retrievals(owned: &Owned, columns: &[Column]) -> String {
    whole(owned, &retrievals_here(owned, columns))
}

/// The same within a statement that is [`whole`] or on one server.
pub(super) fn retrievals_here(owned: &Owned, columns: &[Column]) -> String {
    found(owned, [owned.window(); 2], &[], columns)
}

/// All that happened between these ends, and open ones of other times, which the statement leaves out itself: an end that it works
/// out is worked out anew wherever it is named. The steps before it are [`with_moved`].
pub(super) fn retrievals_near(owned: &Owned, ends: &[Bound], columns: &[Column]) -> String {
    found(owned, [ends, &[]], &[], columns)
}

/// Those of type `content_retrieved` that a server saw, within a statement that is [`whole`].
fn retrieved_and_seen(owned: &Owned, columns: &[Column]) -> String {
    let is_retrieval = |event_type: &str| format!("{event_type} = 'content_retrieved'");
    let conditions = [
        Column { base: is_retrieval("event_type"), open: is_retrieval("told[1].7") },
        Column { base: SEEN_BY_A_SERVER.to_owned(), open: format!("arrayExists(report -> report.5 IN ({SERVERS}), told)") },
    ];
    found(owned, [owned.window(); 2], &conditions, columns)
}

/// Between the first ends of the base, and between the others of the open ones.
fn found(owned: &Owned, [ends, open_ends]: [&[Bound]; 2], conditions: &[Column], columns: &[Column]) -> String {
    let all = |text: fn(&Column) -> &str| conditions.iter().map(|one| format!(" AND {}", text(one))).collect::<String>();
    let list = |text: fn(&Column) -> &str| columns.iter().map(text).collect::<Vec<_>>().join(", ");
    format!(
        "SELECT {base} FROM retrieval_index FINAL \
         WHERE tier = 'base' AND {on_hosts}{near} AND key_low NOT IN (SELECT key_low FROM unmerged) \
           AND {in_time}{is_wanted}{also} \
         UNION ALL \
         SELECT {open} FROM open WHERE {open_in_time}{open_is_wanted}{open_also}",
        base = list(|column| &column.base),
        open = list(|column| &column.open),
        also = all(|column| &column.base),
        open_also = all(|column| &column.open),
        on_hosts = owned.on_hosts,
        near = near(ends),
        in_time = owned.in_time("site", "at", ends),
        is_wanted = owned.is_wanted(str::to_owned, reporter),
        open_in_time = owned.in_time("first_site", "told[1].6", open_ends),
        open_is_wanted = owned.is_wanted(|field| format!("told[1].{}", place(field)), reporter),
    )
}

/// On a row of the base whose retrieval has not moved: reports of it may lie between these ends.
fn near(ends: &[Bound]) -> String {
    ends.iter().map(|end| format!(" AND {}", end.by_place())).collect()
}

/// When each report of a server happened, in the window: one row each, as `happened`.
pub(super) fn seen_by_servers(owned: &Owned) -> String {
    let seen = format!(
        "SELECT happened FROM ( \
           SELECT site, arrayJoin(arrayFilter((at, role) -> role IN ({SERVERS}), arrayPushFront(others.at, at), \
             arrayPushFront(others.role, role))) AS happened \
           FROM retrieval_index FINAL \
           WHERE tier = 'base' AND {on_hosts}{near} AND key_low NOT IN (SELECT key_low FROM unmerged) \
           UNION ALL \
           SELECT first_site, arrayJoin(arrayMap(report -> report.6, arrayFilter(report -> report.5 IN ({SERVERS}), told))) FROM open) \
         WHERE {in_time}",
        on_hosts = owned.on_hosts,
        near = near(owned.window()),
        in_time = owned.in_time("site", "happened", owned.window()),
    );
    whole(owned, &seen)
}

/// The roles of servers: edge, origin, index.
pub(super) const SERVERS: &str = "2, 3, 4";
/// The same of the bits of [`roles`]: a server is among those that saw it.
const SEEN_BY_A_SERVER: &str = "bitAnd(roles, 28) != 0";

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
    reports_of(owned, &retrievals(owned, &with_reports(columns)))
}

/// The same of retrievals of type `content_retrieved` that a server saw, within a statement that is [`whole`].
pub(super) fn reports_of_seen(owned: &Owned, columns: Vec<Column>) -> String {
    reports_of(owned, &retrieved_and_seen(owned, &with_reports(columns)))
}

fn with_reports(columns: Vec<Column>) -> Vec<Column> {
    let all = ["role", "org", "platform", "agent", "session", "link_site", "at"].map(of_all);
    columns.into_iter().chain(all).collect()
}

fn reports_of(owned: &Owned, retrievals: &str) -> String {
    format!(
        "SELECT * EXCEPT (all_platform, all_agent, all_session, all_link_site, all_at, are_told), \
           arrayMap((is_told, of) -> is_told * of, are_told, all_session) AS sessions, \
           arrayMap((is_told, of, by) -> if(is_told, of, {reporter}), are_told, all_platform, all_org) AS platforms, \
           arrayMap((is_told, of) -> if(is_told, toString(of), ''), are_told, all_agent) AS agents, \
           arrayMap((role, of) -> role = 1 OR of != 0, all_role, sessions) AS are_agents \
         FROM (SELECT *, arrayMap((link, happened) -> {may_tell}, all_link_site, all_at) AS are_told FROM ({retrievals}))",
        reporter = reporter("by"),
        may_tell = owned.may_tell("link", "happened"),
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
