//! The figures of a summary (docs/api/counting.md#figures).

use crate::read_model::caps::ROWS_OF_AGENTS;
use crate::read_model::owned::Owned;
use crate::read_model::retrievals::with;
use crate::read_model::shapes::counted_with_sessions;

/// The figures of a summary: of everything the sessions, and retrievals by type and by the set of roles that saw them (`seen`: a bit
/// for each role); sessions by role and by agent, and each agent's retrievals. A retrieval counts at its first report, and for an agent
/// at that agent's first. The sessions of an agent in a role become one set first, out of which all others are made.
/// What a figure is of is a value and no grouping set: ClickHouse analyses a statement with grouping sets a second time. Figures come
/// as arrays in a few rows, however many agents there are.
pub(in crate::read_model) fn summary(owned: &Owned) -> String {
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
