-- Returns the figures of summary.sql, also for events with several agents' reports: the one that represents the event, and
-- `others`. Groups events by these reports, with a session set for each. An event counts once for each agent.
SELECT figure, figure_events, sessions,
    arrayMap(of -> (of.1, of.2), arraySlice(arrayPartialSort(
        of -> (NOT has({known:Array(String)}, of.1), -of.3, -of.2, of.1), {most_types:UInt64},
        arrayZip(of_total.1.1, of_total.1.2, of_total.1.3)), 1, {most_types:UInt64})) AS types,
    of_total.2 AS roles_seen, toUInt64(0) AS with_others
FROM (
    SELECT
        if(place > {most_agents:UInt64}, ('other', toUInt8(0), '', ''), one_figure) AS figure,
        sum(some_events) AS figure_events,
        uniqExactIfMerge(some_sessions) AS sessions,
        any(some_total) AS of_total
    FROM (
        SELECT
            figure AS one_figure,
            sumIf(grouped, is_counted) AS some_events,
            uniqExactIfMergeState(session_set) AS some_sessions,
            (
                sumMapIf(mapKeys(by_type), mapValues(by_type), arrayMap(of -> of * is_owners, mapValues(by_type)), is_total),
                sumForEachIf(by_role, is_total)
            ) AS some_total,
            row_number() OVER (PARTITION BY figure.1 ORDER BY some_events DESC, figure) AS place
        FROM (
            SELECT grouped, by_type, is_owners, by_role, session_set,
                arrayJoin(arrayConcat(
                    [('total', toUInt8(0), '', ''), ('role', one_role, '', '')],
                    if(has_agent, [('agent', toUInt8(0), platform_name, agent_name)], []))) AS figure,
                if(figure.1 = 'total', place = 1, has_agent AND nth_of_agent = 1) AS is_counted,
                is_counted AND figure.1 = 'total' AS is_total
            FROM (
                SELECT
                    role AS own_role,
                    role = 1 OR shown_session != 0 AS is_agents, organization = {owner_id:UUID} AS is_owners,
                    if(is_told, platform, organization) AS shown_platform,
                    is_told AS may_name, short_agent AS own_agent,
                    arrayZip(other_roles, other_platforms, other_names) AS others,
                    count() AS grouped,
                    sumMap(map(toString(type), toUInt64(1))) AS by_type,
                    [countIf(bitTest(roles, 1)), countIf(bitTest(roles, 2)), countIf(bitTest(roles, 3)), countIf(bitTest(roles, 4))]
                        AS by_role,
                    arrayPushFront(
                        uniqExactIfStateForEach(other_sessions, arrayMap(one -> one != 0, other_sessions)),
                        uniqExactIfState(shown_session, shown_session != 0)) AS session_sets,
                    arrayPushFront(arrayMap(of -> of.1, others), own_role) AS all_roles,
                    arrayPushFront(arrayMap(of -> toUInt8(1), others), is_agents) AS have_agent,
                    arrayPushFront(arrayMap(of -> toString(of.2), others), toString(shown_platform)) AS platforms,
                    arrayPushFront(arrayMap(of -> toString(of.3), others), if(may_name, toString(own_agent), '')) AS agents
                FROM (
                    WITH
                        (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                        host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                            end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                            arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))),
                            {never_ms:Int64})) AS owned_since,
                        link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told
                    SELECT role, is_told, is_told * session AS shown_session, platform, organization, type, roles,
                        other_agents.role AS other_roles, other_agents.platform AS other_platforms,
                        arrayMap(name -> leftUTF8(name, 200), other_agents.agent) AS other_names,
                        other_agents.session AS other_sessions, leftUTF8(agent, 200) AS short_agent
                    FROM events FINAL
                    WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                        AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                        AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                            OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                        AND NOT startsWith(type, 'turn_')
                        -- filters.sql
                )
                GROUP BY own_role, is_agents, shown_platform, may_name, own_agent, is_owners, others
            )
            ARRAY JOIN arrayEnumerate(all_roles) AS place, all_roles AS one_role, platforms AS platform_name, agents AS agent_name,
                have_agent AS has_agent, session_sets AS session_set,
                arrayEnumerateUniq(have_agent, platforms, agents) AS nth_of_agent
        )
        GROUP BY figure
    )
    GROUP BY figure
)
