//! The text of a summary.
//!
//! Must count a retrieval once in all and once for each role and each agent that reported it, and sessions of all its reports.

use super::report::Report;
use super::{begun, retrievals};
use crate::sql::faces::NONE;
use crate::sql::within::Within;

/// Whether one retrieval may have several reports of agents.
const HAS_SEVERAL: &str = "arrayExists(other -> other.5 = 1 OR other.9 != 0, others)";

/// The figures in parts that add up: retrievals by type and by the set of roles that saw them (`seen`, its `role` holds a bit for
/// each), sessions in all, by role and by agent, and each agent's retrievals. Those are its reports, except where one retrieval
/// may have several of agents: of these few each agent counts once.
pub(in crate::sql) fn summary(within: &Within) -> String {
    let parts = [seen(within), sessions(within), several(within)];
    format!("{} {}", begun(within), parts.join(" UNION ALL "))
}

fn seen(within: &Within) -> String {
    format!(
        "SELECT 'seen' AS figure, toString(event_type) AS event_type, roles AS role, {NONE} AS org, '' AS agent, \
           count() AS events, toUInt64(0) AS sessions \
         FROM {retrievals} GROUP BY event_type, roles",
        retrievals = retrievals(within, "event_type, roles"),
    )
}

fn sessions(within: &Within) -> String {
    let of_reports = |report: &Report, of_one: &str, retrievals: &str| {
        let Report { role, platform, agent, session, .. } = report;
        format!(
            "SELECT {role} AS of_role, {platform} AS of_org, {agent} AS of_agent, {of_one} AS of_one, \
               uniqExactStateIf({session}, {session} != 0) AS of_sessions \
             FROM {retrievals} GROUP BY of_role, of_org, of_agent"
        )
    };
    let retrievals = retrievals(within, "org, role, at, session, platform, agent, link_site, others");
    let first = Report::first(within);
    let of_one = format!("countIf({} AND NOT {HAS_SEVERAL})", first.is_agents);
    format!(
        "SELECT multiIf(grouping(of_role) = 0, 'source', grouping(of_org) = 0, 'agent', 'total') AS figure, '', of_role, of_org, of_agent, \
           if(figure = 'agent', sum(of_one), 0), uniqExactMerge(of_sessions) \
         FROM ({first} UNION ALL {others}) \
         GROUP BY GROUPING SETS ((), (of_role), (of_org, of_agent))",
        first = of_reports(&first, &of_one, &retrievals),
        others = of_reports(&Report::other(within, "of"), "toUInt64(0)", &format!("{retrievals} ARRAY JOIN others AS of")),
    )
}

fn several(within: &Within) -> String {
    let (first, other) = (Report::first(within), Report::other(within, "other"));
    format!(
        "SELECT 'agent', '', toUInt8(0), of_agent.1, of_agent.2, count(), toUInt64(0) \
         FROM (SELECT arrayJoin(arrayDistinct(arrayConcat( \
                 if({first_is}, [({first_platform}, {first_agent})], []), \
                 arrayMap(other -> ({platform}, {agent}), arrayFilter(other -> {is_agents}, others))))) AS of_agent \
               FROM {retrievals} WHERE {HAS_SEVERAL}) \
         GROUP BY of_agent",
        first_is = first.is_agents,
        first_platform = first.platform,
        first_agent = first.agent,
        platform = other.platform,
        agent = other.agent,
        is_agents = other.is_agents,
        retrievals = retrievals(within, "org, role, at, session, platform, agent, link_site, others"),
    )
}
