//! The same reads for the usual case, several times cheaper: without merging what the store has not merged yet.
//!
//! A retrieval is odd when that would not be exact: two observations of one role (repeats not merged yet, two edges or
//! agents with one id), one that does not merge beside one that does, some of its reports in time and some not, a conversation's report among them. A statement of this
//! file counts the odd ones it meets in the same moment; unless there are none its answer is void, and the one of
//! [`super::statements`] is asked instead. So every answer is exact, and is of one moment.
//!
//! Must not answer anything that the statement it stands for would answer otherwise.

use super::event_page::{Found, event_page};
use super::faces::{AGENT, NONE, PLATFORM, ROLE, SESSION};
use super::statements::{MOST_FIRST, ON_PAGE, Shown, is_agents, listed, reported_in_window, shown_by};
use super::within::Within;
use schemas::store::OBSERVATIONS;

/// The total of a page that is void.
pub(super) const VOID: u64 = u64::MAX;

/// Where each role has one observation at most, the role alone says which represents the retrieval.
fn rank(within: &Within) -> String {
    let late = within.is_late.as_ref().map(|is_late| format!(" + 8 * {is_late}"));
    format!("if(observer = 0, 5, observer){}", late.unwrap_or_default())
}

/// The total, unless `odd` are there.
fn total_unless(odd: &str, counted: &str) -> String {
    format!("SELECT if({odd} > 0, {VOID}, count()) AS total, 1 AS one FROM {counted}")
}

/// One row per retrieval with a report in time: what its representing observation tells, and whether it is odd.
fn retrievals(within: &Within, columns: &[Shown<'_>], aggregates: &[&str], or_odd: &str) -> String {
    let rank = rank(within);
    let mut columns: Vec<String> = columns.iter().map(|column| shown_by(&rank, column)).collect();
    columns.extend(aggregates.iter().map(|aggregate| (*aggregate).to_owned()));
    let (on_hosts, in_time) = (&within.on_hosts, &within.row_in_time);
    format!(
        "SELECT *, reports != bitCount(observers) OR (observers > 1 AND bitTest(observers, 0)) OR has_turn OR NOT all_in_time \
           OR {or_odd} AS is_odd FROM ( \
           SELECT event_key, {columns}, count() AS reports, groupBitOr(toUInt8(bitShiftLeft(1, observer))) AS observers, \
             max(startsWith(event_type, 'turn_')) AS has_turn, max({in_time}) AS some_in_time, min({in_time}) AS all_in_time \
           FROM {OBSERVATIONS} WHERE {on_hosts}{candidates} GROUP BY event_key) \
         WHERE some_in_time",
        columns = columns.join(", "),
        candidates = reported_in_window(within, std::slice::from_ref(on_hosts)),
    )
}

/// The figures of a summary: retrievals by type and by the set of roles that saw them (`role` holds a bit for each, `sessions`
/// how many are odd), then sessions in all, by role and by agent, and each agent's retrievals.
pub(super) fn summary(within: &Within) -> String {
    let is_agents = is_agents();
    let of_agents = format!("countIf({is_agents}) AS of_agents");
    let or_odd = "of_agents > 1";
    let role = format!("max({ROLE}) AS one_role");
    let retrievals = retrievals(within, &[("event_type", "shown_type")], &[&role, &of_agents], or_odd);
    format!(
        "SELECT 'seen' AS figure, toString(shown_type) AS event_type, \
           toUInt8(if(observers = 1, bitShiftLeft(1, one_role), observers)) AS role, {NONE} AS org, '' AS agent, \
           count() AS events, countIf(is_odd) AS sessions \
         FROM ({retrievals}) GROUP BY shown_type, role \
         UNION ALL SELECT multiIf(grouping(role) = 0, 'source', grouping(agent) = 0, 'agent', 'total') AS figure, '', role, org, agent, \
           if(figure = 'agent', sum(of_agents), 0), uniqExactMerge(of_sessions) \
         FROM ( \
           SELECT {ROLE} AS role, {PLATFORM} AS org, {AGENT} AS agent, countIf({is_agents}) AS of_agents, \
             uniqExactStateIf({SESSION}, {SESSION} != {NONE}) AS of_sessions \
           FROM {OBSERVATIONS} WHERE {visible} AND {in_time} GROUP BY role, org, agent) \
         GROUP BY GROUPING SETS ((org), (role, org), (org, agent))",
        visible = within.visible,
        in_time = within.row_in_time,
    )
}

/// A page of events.
pub(super) fn events(within: &Within, offset: u64) -> String {
    let retrievals = retrievals(within, &[("at", "shown_at")], &[], "0");
    // None of them is odd, so that what is read again of them needs no `FINAL` either.
    let found = Found { before: "PREWHERE ".to_owned(), after: format!(" WHERE {}", within.visible), is_by_site: true };
    event_page(within, offset, &retrievals, &found, &total_unless("countIf(is_odd)", "retrievals"))
}

/// A page of URLs. Sessions are counted for those on the page only, by the URL of each report: one whose observers name
/// different URLs is odd, too.
pub(super) fn urls(within: &Within) -> String {
    let retrievals = retrievals(
        within,
        &[("event_type", "shown_type"), ("content_url", "url"), ("at", "shown_at")],
        &["min(cityHash64(content_url)) AS one_url", "max(cityHash64(content_url)) AS other_url"],
        "one_url != other_url",
    );
    let urls = format!(
        "SELECT url, sum(of_type) AS events, groupArray(type) AS types, groupArray(of_type) AS per_type, \
           toUnixTimestamp64Milli(max(last_at)) AS last_ms, sum(odd_of_type) AS odd \
         FROM ( \
           SELECT url, toString(shown_type) AS type, count() AS of_type, max(shown_at) AS last_at, countIf(is_odd) AS odd_of_type \
           FROM ({retrievals}) GROUP BY url, type) \
         GROUP BY url"
    );
    let on_page = format!("SELECT * FROM urls ORDER BY {MOST_FIRST} {ON_PAGE}");
    let items = format!(
        "SELECT * FROM on_page LEFT JOIN ( \
           SELECT content_url AS url, uniqExact(({PLATFORM}, {SESSION})) AS unique_sessions FROM {OBSERVATIONS} \
           WHERE {visible} AND {in_time} AND {SESSION} != {NONE} AND content_url IN (SELECT url FROM on_page) \
           GROUP BY url) AS seen_by USING (url)",
        visible = within.visible,
        in_time = within.row_in_time,
    );
    let names = "url, events, unique_sessions, types, per_type, last_ms";
    listed(&[("urls", &urls), ("on_page", &on_page)], &total_unless("sum(odd)", "urls"), &items, names, MOST_FIRST)
}
