//! The text of every query of the reads. `{name:Type}` is a server-side parameter, bound by [`super::within`] and
//! [`super::Telemetry`].
//!
//! Must be made of this file's own words and of the conditions of [`Within`] only: nothing that a caller wrote.
//!
//! Every statement begins with the same step: the observations that may be seen become one row per retrieval (by its
//! key alone: an id reported again for another host of the owner is the same event), told by the observation that
//! represents it, and are filtered by time only then, so that adjacent windows never share a retrieval nor lose one.
//! A windowed read first looks up which keys have any report in the window, so that it groups those and no more.
//! `MATERIALIZED` makes one step serve the total and the page, so that both are of one moment.

use super::event_page::{Found, SITES, event_page};
use super::faces::{AGENT, Face, NONE, PLATFORM, ROLE, SESSION};
use super::within::Within;
use schemas::store::OBSERVATIONS;

/// Which observation represents its retrieval, smallest first: the agent's, then edge, origin, index, no role; of
/// equal roles the first accepted (the larger version), then the smaller organisation. One number, because comparing
/// tuples is several times slower; and not the UUID itself, because ClickHouse compares its second half first.
/// The role is the reported one: of two reports of one id without a role the first stays.
const PRECEDENCE: &str = "bitShiftLeft(toUInt256(if(source_role = '', 5, toUInt8(source_role))), 192) \
                          + bitShiftLeft(toUInt256(bitNot(version)), 128) + toUInt128(org_id)";

/// Whether an agent stands behind an observation: without that it names no agent (docs/api/counting.md#figures).
pub(super) fn is_agents() -> String {
    format!("({ROLE} = 1 OR {SESSION} != {NONE})")
}

/// What is read of a retrieval: an expression on its representing observation, and its name.
pub(super) type Shown<'a> = (&'a str, &'a str);
type Columns<'a> = &'a [Shown<'a>];

/// The precedence in this read: where a walk has begun, what was accepted later comes after everything else.
pub(super) fn precedence(within: &Within) -> String {
    let late = within.is_late.as_ref().map(|is_late| format!("bitShiftLeft(toUInt256({is_late}), 200) + "));
    format!("{}{PRECEDENCE}", late.unwrap_or_default())
}

/// A column as the first observation by `precedence` has it.
pub(super) fn shown_by(precedence: &str, (expression, name): &Shown<'_>) -> String {
    format!("argMin({expression}, {precedence}) AS {name}")
}

/// One row per retrieval in the window: its key, `shown_at`, and the columns asked for.
pub(super) fn retrievals(within: &Within, shown_columns: Columns<'_>, aggregates: &[&str], only: &str) -> String {
    let precedence = precedence(within);
    let shown = |column: &Shown<'_>| shown_by(&precedence, column);
    let mut columns = vec![shown(&("at", "shown_at"))];
    if within.needs_site {
        columns.push(shown(&("site", "shown_site")));
    }
    columns.extend(shown_columns.iter().map(shown));
    columns.extend(aggregates.iter().map(|aggregate| (*aggregate).to_owned()));
    format!(
        "SELECT event_key, {columns} FROM {OBSERVATIONS} FINAL WHERE {visible}{candidates} GROUP BY event_key HAVING {in_time}{only}",
        columns = columns.join(", "),
        visible = within.visible,
        candidates = candidates(within),
        in_time = within.in_time,
    )
}

/// A retrieval of the window has a report in the window; not every such report is of a retrieval of the window. All
/// rows of its key are read, wherever and whenever they happened: one of them may say that it happened elsewhen.
fn candidates(within: &Within) -> String {
    let keys = reported_in_window(within, &within.found_by);
    if within.face == Face::Owner {
        return keys;
    }
    // Without FINAL the rows of a party are found by their index or projection, and then by the sorting key.
    let rows = |found_by: &String| format!("SELECT site, event_key FROM {OBSERVATIONS} WHERE {found_by}{keys}");
    let rows: Vec<String> = within.found_by.iter().map(rows).collect();
    format!(" AND (site, event_key) IN ({})", rows.join(" UNION ALL "))
}

/// Only keys with a report in the window, of the rows that any of `found_by` chooses; any without a window.
pub(super) fn reported_in_window(within: &Within, found_by: &[String]) -> String {
    let Some(reported) = &within.reported_in_time else { return String::new() };
    let keys = |found_by: &String| format!("SELECT event_key FROM {OBSERVATIONS} WHERE {found_by} AND {reported}");
    let keys: Vec<String> = found_by.iter().map(keys).collect();
    format!(" AND event_key IN ({})", keys.join(" UNION ALL "))
}

/// The figures of a summary, in parts that add up. What is counted once per retrieval comes from `shown`; sessions
/// come from the observations, first collapsed by session. Counting an agent's observations counts its retrievals,
/// except where one retrieval has several of agents: these few are counted by their keys.
pub(super) fn summary(within: &Within) -> String {
    let is_agents = is_agents();
    let aggregates =
        [format!("groupBitOr(toUInt8(bitShiftLeft(1, {ROLE}))) AS roles"), format!("countIf({is_agents}) AS of_agents")];
    let shown = retrievals(within, &[("event_type", "shown_type")], &aggregates.each_ref().map(String::as_str), "");
    let several = "(SELECT event_key FROM shown WHERE of_agents > 1)";
    let visible = &within.visible;
    let counted = if within.is_timed { " AND event_key IN (SELECT event_key FROM shown)" } else { "" };
    format!(
        "WITH shown AS MATERIALIZED ({shown}) \
         SELECT 'total' AS figure, '' AS event_type, toUInt8(0) AS role, {NONE} AS org, '' AS agent, \
           count() AS events, toUInt64(0) AS sessions FROM shown \
         UNION ALL SELECT 'type', toString(shown_type), 0, {NONE}, '', count(), 0 FROM shown GROUP BY shown_type \
         UNION ALL SELECT 'source', '', toUInt8(code), {NONE}, '', seen, 0 \
           FROM (SELECT [countIf(bitTest(roles, 1)), countIf(bitTest(roles, 2)), countIf(bitTest(roles, 3)), countIf(bitTest(roles, 4))] AS per_role FROM shown) \
           ARRAY JOIN per_role AS seen, [1, 2, 3, 4] AS code \
         UNION ALL SELECT multiIf(grouping(role) = 0, 'source', grouping(org) = 0, 'agent', 'total') AS figure, '', role, org, agent, \
             if(figure = 'agent', sum(of_one), 0), uniqExactIf((org, session), session != {NONE}) \
           FROM (SELECT {ROLE} AS role, {PLATFORM} AS org, {AGENT} AS agent, {SESSION} AS session, \
                   countIf({is_agents} AND event_key NOT IN {several}) AS of_one \
                 FROM {OBSERVATIONS} FINAL WHERE {visible}{counted} GROUP BY role, org, agent, session) \
           GROUP BY GROUPING SETS ((), (role), (org, agent)) \
         UNION ALL SELECT 'agent', '', 0, {PLATFORM}, {AGENT}, uniqExact(event_key), 0 \
           FROM {OBSERVATIONS} FINAL WHERE {visible} AND {is_agents} AND event_key IN {several} GROUP BY {PLATFORM}, {AGENT}"
    )
}

/// A page of events, newest first, ties by id. Only times are read of every retrieval, ids of those that may be on the
/// page, and what is wide of those that are.
pub(super) fn events(within: &Within, offset: u64) -> String {
    let is_by_site = within.face == Face::Owner;
    let retrievals = retrievals(within, &[], if is_by_site { &[] } else { &[SITES] }, "");
    let (before, after) = (format!("FINAL WHERE {} AND ", within.visible), String::new());
    event_page(within, offset, &retrievals, &Found { before, after, is_by_site }, &all_of("retrievals"))
}

/// A page of URLs, most events first.
pub(super) fn urls(within: &Within) -> String {
    let sessions = format!("groupUniqArrayIf(({PLATFORM}, {SESSION}), {SESSION} != {NONE}) AS sessions");
    let retrievals = retrievals(within, &[("event_type", "shown_type"), ("content_url", "url")], &[&sessions], "");
    let urls = format!(
        "SELECT url, count() AS events, uniqExactArray(sessions) AS unique_sessions, \
           sumMap([toString(shown_type)], [toUInt64(1)]) AS counts, toUnixTimestamp64Milli(max(shown_at)) AS last_ms \
         FROM ({retrievals}) GROUP BY url"
    );
    let names = "url, events, unique_sessions, counts.1 AS types, counts.2 AS per_type, last_ms";
    page(&[("urls", &urls)], &all_of("urls"), "SELECT * FROM urls", names, MOST_FIRST)
}

/// Retrievals per day and agent, by who saw them. A server of the very organisation that claims a retrieval is no second
/// reporter.
pub(super) fn corroboration(within: &Within) -> String {
    let agent = agent_columns();
    let claimants = format!("groupUniqArrayIf(org_id, {ROLE} IN (0, 1) AND {}) AS claimants", is_agents());
    let servers = "groupUniqArrayIf(org_id, source_role IN ('edge', 'origin')) AS servers";
    let retrievals = retrievals(
        within,
        &[("event_type", "shown_type"), (&agent.0, "platform"), (&agent.1, "agent")],
        &[
            &claimants,
            servers,
            "notEmpty(claimants) AS is_claimed",
            "arrayExists(server -> NOT has(claimants, server), servers) AS is_seen",
        ],
        " AND shown_type = 'content_retrieved'",
    );
    let parts = format!(
        "SELECT toString(toDate(shown_at)) AS day, platform, agent, count() AS retrievals, \
           countIf(is_claimed AND is_seen) AS both, countIf(is_claimed AND NOT is_seen) AS claimed_only, \
           countIf(NOT is_claimed AND is_seen) AS seen_only, countIf(NOT is_claimed AND NOT is_seen) AS neither \
         FROM ({retrievals}) GROUP BY day, platform, agent"
    );
    let names = "day, platform, agent, retrievals, both, claimed_only, seen_only, neither";
    page(
        &[("parts", &parts)],
        &all_of("parts"),
        "SELECT * FROM parts",
        names,
        "day DESC, retrievals DESC, toString(platform), agent",
    )
}

/// Whose agent, and which; nobody's where no agent stands behind the representing observation.
fn agent_columns() -> (String, String) {
    let is_claim = format!("{ROLE} IN (0, 1) AND {}", is_agents());
    (format!("if({is_claim}, {PLATFORM}, {NONE})"), format!("if({is_claim}, {AGENT}, '')"))
}

/// What a funnel is split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunnelBy {
    /// Platform and agent.
    Agent,
    /// URL.
    Url,
    /// UTC day.
    Day,
}

/// Content events per agent, URL or day, in the order of what becomes of content.
pub(super) fn funnel(within: &Within, by: FunnelBy) -> String {
    let (platform, agent) = agent_columns();
    let shown_columns: Vec<(&str, &str)> = match by {
        FunnelBy::Agent => vec![("event_type", "shown_type"), (&platform, "platform"), (&agent, "name")],
        FunnelBy::Url => vec![("event_type", "shown_type"), ("content_url", "name")],
        FunnelBy::Day => vec![("event_type", "shown_type")],
    };
    let (keys, order) = match by {
        FunnelBy::Agent => ("platform, name", "whole DESC, toString(platform), name"),
        FunnelBy::Url => ("toUUID('00000000-0000-0000-0000-000000000000') AS platform, name", "whole DESC, name"),
        FunnelBy::Day => {
            ("toUUID('00000000-0000-0000-0000-000000000000') AS platform, toString(toDate(shown_at)) AS name", "name DESC")
        }
    };
    let only =
        " AND shown_type IN ('content_retrieved', 'content_grounded', 'content_cited', 'content_presented', 'content_engaged')";
    let steps = ["retrieved", "grounded", "cited", "presented", "engaged"];
    let counts = steps.map(|step| format!("countIf(shown_type = 'content_{step}') AS {step}")).join(", ");
    let parts = format!(
        "SELECT {keys}, count() AS whole, {counts} FROM ({retrievals}) GROUP BY platform, name",
        retrievals = retrievals(within, &shown_columns, &[], only),
    );
    let names = "platform, name, retrieved, grounded, cited, presented, engaged";
    page(&[("parts", &parts)], &all_of("parts"), "SELECT * FROM parts", names, &format!("{order}, whole"))
}

/// The order of URLs.
pub(super) const MOST_FIRST: &str = "events DESC, url";
/// What of an order is on the page.
pub(super) const ON_PAGE: &str = "LIMIT {limit:UInt64} OFFSET {offset:UInt64}";

/// How many rows a step has.
fn all_of(step: &str) -> String {
    format!("SELECT count() AS total, 1 AS one FROM {step}")
}

/// The items of one page, out of all of them.
fn page(steps: &[(&str, &str)], total: &str, items: &str, names: &str, order: &str) -> String {
    listed(steps, total, &format!("SELECT * FROM ({items}) ORDER BY {order} {ON_PAGE}"), names, order)
}

/// The items of a page in order, each with the total beside it; a page without items is one row that is none.
pub(super) fn listed(steps: &[(&str, &str)], total: &str, items: &str, names: &str, order: &str) -> String {
    let steps: Vec<String> = steps.iter().map(|(name, text)| format!("{name} AS MATERIALIZED ({text})")).collect();
    format!(
        "WITH {steps} \
         SELECT total, is_item, page.* EXCEPT (one, is_item, place) FROM ({total}) AS whole \
         LEFT JOIN ( \
           SELECT 1 AS one, toUInt8(1) AS is_item, rowNumberInAllBlocks() AS place, {names} FROM ( \
             SELECT * FROM ({items}) ORDER BY {order}) \
         ) AS page USING (one) ORDER BY place",
        steps = steps.join(", "),
    )
}
