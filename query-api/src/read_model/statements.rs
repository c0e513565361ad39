//! The text of the figures and lists of content owners. `{name:Type}` is a server-side parameter, bound by [`Owned`] and
//! [`super::Telemetry`].
//!
//! Must be made of this file's own words and of the conditions of [`Owned`] only: nothing that a caller wrote.
//!
//! Every statement counts out of [`super::retrievals`], one row per retrieval, or of [`super::shapes`], which counts these, which belongs to the time of the report that
//! represents it, so that adjacent windows never share a retrieval nor lose one. All of a statement sees the same parts of the
//! index, so that its totals and its items are of one moment.

use super::caps::ROWS_OF_AGENTS;
use super::owned::Owned;
use super::retrievals::{retrievals, sessions, shown, site, with};
use super::shapes::{IS_CLAIM, counted, counted_by_day, counted_with_sessions};
use super::shown_columns::NONE;
use crate::parameters::pages::PagesBy;
use crate::parameters::sort::{Sort, Sortable, order_by};

/// The figures of a summary: of everything the sessions, and retrievals by type and by the set of roles that saw them (`seen`: a bit
/// for each role); sessions by role and by agent, and each agent's retrievals. A retrieval counts at its first report, and for an agent
/// at that agent's first. The sessions of an agent in a role become one set first, out of which all others are made.
/// What a figure is of is a value and no grouping set: ClickHouse analyses a statement with grouping sets a second time. Figures come
/// as arrays in a few rows, however many agents there are.
pub(super) fn summary(owned: &Owned) -> String {
    format!(
        "{steps}\
         SELECT groupArray((figure, role, org, agent, events, sessions, seen, seen_events)) AS figures FROM ( \
           SELECT of.1 AS figure, of.2 AS role, of.3 AS org, of.4 AS agent, if(figure = 'agent', sum(firsts), 0) AS events, \
             uniqExactMerge(seen_by) AS sessions, if(figure = 'total', sumMap(seen_by_type).1, []) AS seen, \
             if(figure = 'total', sumMap(seen_by_type).2, []) AS seen_events \
           FROM ( \
             SELECT arrayJoin([('total', toUInt8(0), '', ''), ('source', one_role, '', ''), ('agent', toUInt8(0), toString(one_org), one_agent)]) AS of, \
               sum(retrievals * (is_agents AND nth = 1)) AS firsts, \
               uniqExactMergeStateIf(one_set, is_session) AS seen_by, \
               sumMapIf([(event_type, {roles})], [retrievals], place = 1) AS seen_by_type \
             FROM ({shapes}) \
             ARRAY JOIN arrayEnumerate(all_role) AS place, all_role AS one_role, platforms AS one_org, agents AS one_agent, \
               sets AS one_set, have_session AS is_session, are_agents AS is_agents, \
               arrayEnumerateUniq(are_agents, platforms, agents) AS nth \
             GROUP BY one_role, one_org, one_agent) \
           GROUP BY of) \
         GROUP BY cityHash64(org, agent) % {ROWS_OF_AGENTS}",
        steps = with(owned),
        roles = "toUInt8(arrayReduce('groupBitOr', arrayMap(one -> toUInt8(bitShiftLeft(1, one)), all_role)))",
        shapes = counted_with_sessions(owned),
    )
}

/// The section of a page: its host, and the first step of its path where another step follows.
const SECTION: &str = "concat('https://', arrayStringConcat(arrayReverse(splitByChar('.', toString(site))), '.'), \
    if((extract(path(url), '^/[^/]*/') AS first_step) = '', '/', concat(first_step, '*')))";

/// A page of URLs or of sections, most events first when nothing else was asked for.
pub(super) fn urls(owned: &Owned, by: PagesBy, sort: Option<Sort>) -> String {
    let columns = [shown("url"), shown("event_type"), shown("at"), sessions(owned)];
    let (key, retrievals) = match by {
        PagesBy::Url => ("url", retrievals(owned, &columns)),
        PagesBy::Section => {
            let columns: Vec<_> = columns.into_iter().chain([site()]).collect();
            ("section", format!("SELECT event_type, at, sessions, {SECTION} AS section FROM ({})", retrievals(owned, &columns)))
        }
    };
    let urls = format!(
        "SELECT {key} AS url, count() AS events, uniqExactArray(sessions) AS unique_sessions, sumMap(map(event_type, toUInt64(1))) AS by_type, \
           toUnixTimestamp64Milli(max(at)) AS last_ms \
         FROM ({retrievals}) GROUP BY {key}",
    );
    let names = "url, events, unique_sessions, arrayMap(type -> toString(type), mapKeys(by_type)) AS types, mapValues(by_type) AS per_type, last_ms";
    page(owned, &urls, names, &order_by(sort, "events DESC, url"))
}

/// What URLs can be sorted by: their members, and how many of their events are of a type.
pub(crate) const URLS_SORTABLE: &Sortable = &[
    ("content_url", "url"),
    ("total_events", "events"),
    ("unique_sessions", "unique_sessions"),
    ("last_seen", "last_ms"),
    ("content_retrieved", "by_type['content_retrieved']"),
    ("content_grounded", "by_type['content_grounded']"),
    ("content_cited", "by_type['content_cited']"),
    ("content_presented", "by_type['content_presented']"),
    ("content_engaged", "by_type['content_engaged']"),
];

/// What a row of corroboration is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CorroborationBy {
    /// A UTC day and an agent.
    Agent,
    /// A UTC day.
    Day,
}

impl CorroborationBy {
    /// What its rows can be sorted by.
    pub(crate) fn sortable(self) -> &'static Sortable {
        const BY_AGENT: &Sortable = &[
            ("agent_id", "agent"),
            ("day", "day"),
            ("retrievals", "retrievals"),
            ("seen_by_both", "both"),
            ("claimed_by_agent_only", "claimed_only"),
            ("seen_by_server_only", "seen_only"),
            ("seen_by_neither", "neither"),
        ];
        match self {
            Self::Agent => BY_AGENT,
            Self::Day => &BY_AGENT[1..],
        }
    }
}

/// Of a retrieval with its reports: which of them claim it.
pub(super) const CLAIM: &str = "arrayMap((role, is_agents) -> role IN (0, 1) AND is_agents, all_role, are_agents) AS claim";
/// Whether an agent claims it, and whether a server of another organisation saw it.
pub(super) const CLAIMED_AND_SEEN: &str = "arrayFilter((org, is_claim) -> is_claim, all_org, claim) AS claimants, \
    notEmpty(claimants) AS is_claimed, \
    arrayExists((org, role) -> role IN (2, 3) AND NOT has(claimants, org), all_org, all_role) AS is_seen";

/// Retrievals per day, or per day and agent, by who saw them. A server of the very organisation that claims a retrieval is no second
/// reporter.
pub(super) fn corroboration(owned: &Owned, by: CorroborationBy, sort: Option<Sort>) -> String {
    let whose = match by {
        CorroborationBy::Agent => format!("if(claim[1], platforms[1], {NONE}) AS platform, if(claim[1], agents[1], '') AS agent"),
        CorroborationBy::Day => format!("{NONE} AS platform, '' AS agent"),
    };
    let parts = format!(
        "SELECT toString(one.1) AS day, platform, agent, sum(one.2) AS retrievals, \
           sumIf(one.2, is_claimed AND is_seen) AS both, sumIf(one.2, is_claimed AND NOT is_seen) AS claimed_only, \
           sumIf(one.2, NOT is_claimed AND is_seen) AS seen_only, sumIf(one.2, NOT is_claimed AND NOT is_seen) AS neither \
         FROM ( \
           SELECT {of_days} AS of_days, {whose}, {CLAIMED_AND_SEEN} \
           FROM (SELECT *, {CLAIM} FROM ({shapes}))) \
         ARRAY JOIN of_days AS one GROUP BY day, platform, agent",
        // A condition on the type would be tried on each retrieval, before they are counted.
        of_days = "if(event_type = 'content_retrieved', days, [])",
        shapes = counted_by_day(owned),
    );
    let names = "day, platform, agent, retrievals, both, claimed_only, seen_only, neither";
    page(owned, &parts, names, &order_by(sort, "day DESC, retrievals DESC, toString(platform), agent"))
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

impl FunnelBy {
    /// What its rows can be sorted by.
    pub(crate) fn sortable(self) -> &'static Sortable {
        match self {
            Self::Agent => &[("agent_id", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
            Self::Url => &[("content_url", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
            Self::Day => &[("day", "name"), STEPS[0], STEPS[1], STEPS[2], STEPS[3], STEPS[4]],
        }
    }
}

/// The steps of a funnel, each by the column of its name.
const STEPS: [(&str, &str); 5] = [
    ("retrieved", "retrieved"),
    ("grounded", "grounded"),
    ("cited", "cited"),
    ("presented", "presented"),
    ("engaged", "engaged"),
];

/// Content events per agent, URL or day, in the order of what becomes of content.
pub(super) fn funnel(owned: &Owned, by: FunnelBy, sort: Option<Sort>) -> String {
    let each = || {
        format!(
            "SELECT *, toUInt64(1) AS retrievals FROM ({})",
            retrievals(owned, &[shown("event_type"), shown("at"), shown("url")])
        )
    };
    let (counted, keys, order) = match by {
        FunnelBy::Agent => (
            counted(owned),
            format!("if({IS_CLAIM}, platforms[1], {NONE}) AS of, if({IS_CLAIM}, agents[1], '') AS name"),
            "whole DESC, toString(platform), name",
        ),
        FunnelBy::Url => (each(), format!("{NONE} AS of, url AS name"), "whole DESC, name"),
        FunnelBy::Day => (each(), format!("{NONE} AS of, toString(toDate(at)) AS name"), "name DESC"),
    };
    let steps = STEPS.map(|(step, _)| step);
    let counts = steps.map(|step| format!("sumIf(retrievals, event_type = 'content_{step}') AS {step}")).join(", ");
    let types = steps.map(|step| format!("'content_{step}'")).join(", ");
    // A condition on the type would be tried on each retrieval, before they are counted.
    let parts = format!(
        "SELECT of AS platform, name, sumIf(retrievals, event_type IN ({types})) AS whole, {counts} \
         FROM (SELECT {keys}, event_type, retrievals FROM ({counted})) GROUP BY of, name HAVING whole > 0"
    );
    let names = "platform, name, retrieved, grounded, cited, presented, engaged";
    page(owned, &parts, names, &order_by(sort, &format!("{order}, whole")))
}

/// The items of one page in order, out of all of them, each with the total beside it. `parts` is named once, because ClickHouse analyses
/// a step anew wherever it is named. Before an offset that is past the first item stands that one as a row that is no item, so that
/// the total of a page without items is told; no row is a list without items.
fn page(owned: &Owned, parts: &str, names: &str, order: &str) -> String {
    format!(
        "{steps}\
         SELECT total, toUInt8(place >= {{offset:UInt64}}) AS is_item, {names} FROM ( \
           SELECT *, rowNumberInAllBlocks() AS place FROM ( \
             SELECT *, count() OVER () AS total FROM ({parts}) ORDER BY {order} LIMIT {{through:UInt64}})) \
         WHERE place = 0 OR place >= {{offset:UInt64}} ORDER BY place",
        steps = with(owned),
    )
}
