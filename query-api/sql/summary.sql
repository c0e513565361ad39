-- The figures of a summary: one row for everything (`total`), one per role, one per agent, and one (`other`) for all agents
-- beyond `most_agents`, those with the fewest events. The total also contains the events by type, up to `most_types`: those in
-- `known`, then those with the most events that the owner's reports represent, then those with the most events; and the events
-- that each of the roles 1 to 4 reported.
--
-- Nearly every event has at most one report with an agent, and that report represents it. So only representing reports are
-- grouped, by role and agent, and the session sets of all figures are merged from these few groups. `with_others` is the number
-- of events with further agents' reports. If it is not 0, these figures are incomplete and summary_all.sql has to be used.
SELECT figure, figure_events, sessions,
    arrayMap(of -> (of.1, of.2), arraySlice(arrayPartialSort(
        of -> (NOT has({known:Array(String)}, of.1), -of.3, -of.2, of.1), {most_types:UInt64},
        arrayZip(of_total.1.1, of_total.1.2, of_total.1.3)), 1, {most_types:UInt64})) AS types,
    of_total.2 AS roles_seen, of_total.3 AS with_others
FROM (
    SELECT
        if(place > {most_agents:UInt64}, ('other', toUInt8(0), '', ''), one_figure) AS figure,
        sum(some_events) AS figure_events,
        uniqExactIfMerge(some_sessions) AS sessions,
        any(some_total) AS of_total
    FROM (
        SELECT
            figure AS one_figure,
            sum(grouped) AS some_events,
            uniqExactIfMergeState(session_set) AS some_sessions,
            (
                sumMapIf(mapKeys(by_type), mapValues(by_type), arrayMap(of -> of * is_owners, mapValues(by_type)), figure.1 = 'total'),
                sumForEachIf(by_role, figure.1 = 'total'),
                sumIf(others, figure.1 = 'total')
            ) AS some_total,
            row_number() OVER (PARTITION BY figure.1 ORDER BY some_events DESC, figure) AS place
        FROM (
            SELECT
                role AS own_role,
                role = 1 OR shown_session != 0 AS has_agent,
                is_told AS may_name,
                if(is_told, platform, organization) AS shown_platform,
                short_agent AS own_agent,
                organization = {owner_id:UUID} AS is_owners,
                count() AS grouped,
                uniqExactIfState(shown_session, shown_session != 0) AS session_set,
                sumMap(map(toString(type), toUInt64(1))) AS by_type,
                [countIf(bitTest(roles, 1)), countIf(bitTest(roles, 2)), countIf(bitTest(roles, 3)), countIf(bitTest(roles, 4))] AS by_role,
                countIf(has_others) AS others
            FROM (
                WITH
                    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
                    -- A click on another host than that of its token's link belongs to its reporter, unless the reader owns the
                    -- link's host too.
                    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told
                SELECT role, is_told, is_told * session AS shown_session, platform, organization, type, roles,
                    leftUTF8(agent, 200) AS short_agent, notEmpty(other_agents.role) AS has_others
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
            GROUP BY own_role, has_agent, may_name, shown_platform, own_agent, is_owners
        )
        ARRAY JOIN arrayConcat(
            [('total', toUInt8(0), '', ''), ('role', own_role, '', '')],
            if(has_agent, [('agent', toUInt8(0), toString(shown_platform), if(may_name, toString(own_agent), ''))], [])) AS figure
        GROUP BY figure
    )
    GROUP BY figure
)
