//! The text of the figures and lists of content owners. `{name:Type}` is a server-side parameter, bound by [`Owned`] and
//! [`super::Telemetry`].
//!
//! Must be made of this file's own words and of the conditions of [`Owned`] only: nothing that a caller wrote.
//!
//! Every statement counts out of [`super::retrievals`], one row per retrieval, which belongs to the time of the report that
//! represents it, so that adjacent windows never share a retrieval nor lose one. All of a statement sees the same parts of the
//! index, so that its totals and its items are of one moment.

use super::owned::Owned;
use super::retrievals::{claims, reports, retrievals, roles, shown, with};
use super::shown_columns::NONE;

/// The figures of a summary: retrievals by type and by the set of roles that saw them (`role` holds a bit for each), then sessions
/// in all, by role and by agent, and each agent's retrievals. A retrieval counts at its first report, and for an agent at that
/// agent's first.
pub(super) fn summary(owned: &Owned) -> String {
    format!(
        "{steps}\
         SELECT multiIf(grouping(seen_in) = 0, 'seen', grouping(one_role) = 0, 'source', grouping(one_org) = 0, 'agent', 'total') AS figure, \
           toString(of_type) AS event_type, if(figure = 'seen', seen_in, one_role) AS role, one_org AS org, one_agent AS agent, \
           multiIf(figure = 'seen', sum(first), figure = 'agent', sum(firsts), 0) AS events, \
           if(figure = 'seen', 0, uniqExactIfMerge(seen_by)) AS sessions \
         FROM ( \
           SELECT event_type AS of_type, roles AS seen_in, one_role, one_org, one_agent, sum(toUInt64(place = 1)) AS first, \
             sum(toUInt64(is_agents AND nth = 1)) AS firsts, uniqExactIfState(session, session != 0) AS seen_by \
           FROM ({reports}) \
           ARRAY JOIN arrayEnumerate(all_role) AS place, all_role AS one_role, platforms AS one_org, agents AS one_agent, \
             sessions AS session, are_agents AS is_agents, arrayEnumerateUniq(are_agents, platforms, agents) AS nth \
           GROUP BY of_type, seen_in, one_role, one_org, one_agent) \
         GROUP BY GROUPING SETS ((), (one_role), (one_org, one_agent), (of_type, seen_in))",
        steps = with(owned, &[]),
        reports = reports(owned, vec![shown("event_type"), roles()]),
    )
}

/// A page of URLs, most events first. Sessions are counted for those on the page only.
pub(super) fn urls(owned: &Owned) -> String {
    let urls = format!(
        "SELECT url, sum(of_type) AS events, groupArray(type) AS types, groupArray(of_type) AS per_type, \
           toUnixTimestamp64Milli(max(last_at)) AS last_ms \
         FROM ( \
           SELECT url, toString(event_type) AS type, count() AS of_type, max(at) AS last_at FROM ({retrievals}) GROUP BY url, type) \
         GROUP BY url",
        retrievals = retrievals(owned, &[shown("url"), shown("event_type"), shown("at")]),
    );
    let on_page = format!("SELECT * FROM urls ORDER BY {MOST_FIRST} {ON_PAGE}");
    let items = format!(
        "SELECT * FROM on_page LEFT JOIN ( \
           SELECT url, count() AS unique_sessions FROM ( \
             SELECT url, session FROM ({reports}) ARRAY JOIN sessions AS session \
             WHERE session != 0 AND url IN (SELECT url FROM on_page) GROUP BY url, session) \
           GROUP BY url) AS seen_by USING (url)",
        reports = reports(owned, vec![shown("url")]),
    );
    let names = "url, events, unique_sessions, types, per_type, last_ms";
    let steps = with(owned, &[("urls", &urls), ("on_page", &on_page)]);
    listed(&steps, &all_of("urls"), &items, names, MOST_FIRST)
}

/// Of a retrieval with its reports: which of them claim it.
pub(super) const CLAIM: &str = "arrayMap((role, is_agents) -> role IN (0, 1) AND is_agents, all_role, are_agents) AS claim";
/// Whether an agent claims it, and whether a server of another organisation saw it.
pub(super) const CLAIMED_AND_SEEN: &str = "arrayFilter((org, is_claim) -> is_claim, all_org, claim) AS claimants, \
    notEmpty(claimants) AS is_claimed, \
    arrayExists((org, role) -> role IN (2, 3) AND NOT has(claimants, org), all_org, all_role) AS is_seen";

/// Retrievals per day and agent, by who saw them. A server of the very organisation that claims a retrieval is no second
/// reporter.
pub(super) fn corroboration(owned: &Owned) -> String {
    let parts = format!(
        "SELECT toString(toDate(at)) AS day, platform, agent, count() AS retrievals, \
           countIf(is_claimed AND is_seen) AS both, countIf(is_claimed AND NOT is_seen) AS claimed_only, \
           countIf(NOT is_claimed AND is_seen) AS seen_only, countIf(NOT is_claimed AND NOT is_seen) AS neither \
         FROM ( \
           SELECT at, if(claim[1], platforms[1], {NONE}) AS platform, if(claim[1], agents[1], '') AS agent, {CLAIMED_AND_SEEN} \
           FROM (SELECT *, {CLAIM} FROM ({reports}) WHERE event_type = 'content_retrieved')) \
         GROUP BY day, platform, agent",
        reports = reports(owned, vec![shown("at"), shown("event_type")]),
    );
    let names = "day, platform, agent, retrievals, both, claimed_only, seen_only, neither";
    page(owned, &parts, names, "day DESC, retrievals DESC, toString(platform), agent")
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
pub(super) fn funnel(owned: &Owned, by: FunnelBy) -> String {
    let columns = || vec![shown("event_type"), shown("at"), shown("url")];
    let (retrievals, keys, order) = match by {
        FunnelBy::Agent => {
            (claims(owned, columns()), "claimant AS of, claimed_by AS name".to_owned(), "whole DESC, toString(platform), name")
        }
        FunnelBy::Url => (retrievals(owned, &columns()), format!("{NONE} AS of, url AS name"), "whole DESC, name"),
        FunnelBy::Day => (retrievals(owned, &columns()), format!("{NONE} AS of, toString(toDate(at)) AS name"), "name DESC"),
    };
    let steps = ["retrieved", "grounded", "cited", "presented", "engaged"];
    let counts = steps.map(|step| format!("countIf(event_type = 'content_{step}') AS {step}")).join(", ");
    let types = steps.map(|step| format!("'content_{step}'")).join(", ");
    let parts = format!(
        "SELECT of AS platform, name, count() AS whole, {counts} \
         FROM (SELECT {keys}, event_type FROM ({retrievals}) WHERE event_type IN ({types})) GROUP BY of, name"
    );
    let names = "platform, name, retrieved, grounded, cited, presented, engaged";
    page(owned, &parts, names, &format!("{order}, whole"))
}

/// The order of URLs.
const MOST_FIRST: &str = "events DESC, url";
/// What of an order is on the page.
pub(super) const ON_PAGE: &str = "LIMIT {limit:UInt64} OFFSET {offset:UInt64}";

/// How many rows a step has.
pub(super) fn all_of(step: &str) -> String {
    format!("SELECT count() AS total, 1 AS one FROM {step}")
}

/// The items of one page, out of all of them.
fn page(owned: &Owned, parts: &str, names: &str, order: &str) -> String {
    let items = format!("SELECT * FROM parts ORDER BY {order} {ON_PAGE}");
    listed(&with(owned, &[("parts", parts)]), &all_of("parts"), &items, names, order)
}

/// The items of a page in order, each with the total beside it; a page without items is one row that is none.
pub(super) fn listed(steps: &str, total: &str, items: &str, names: &str, order: &str) -> String {
    format!(
        "{steps}\
         SELECT total, is_item, page.* EXCEPT (one, is_item, place) FROM ({total}) AS whole \
         LEFT JOIN ( \
           SELECT 1 AS one, toUInt8(1) AS is_item, rowNumberInAllBlocks() AS place, {names} FROM ( \
             SELECT * FROM ({items}) ORDER BY {order}) \
         ) AS page USING (one) ORDER BY place"
    )
}
