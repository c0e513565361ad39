-- The figures of a summary: one row for everything (`total`), one per role and one per agent. The row for everything also has the
-- events by type and, for the roles 1 to 4, the events that each reported.
--
-- Nearly every event has at most one report with an agent behind it, and that one represents it. So only the representing reports are
-- grouped, by role and agent; the sets of sessions of all figures are merged from these few. `with_others` is the number of events
-- of which other reports have an agent too. If there are any, these figures are incomplete and summary_all.sql has to be used.
SELECT
    figure.1 AS name,
    figure.2 AS role_code,
    figure.3 AS platform_id,
    figure.4 AS agent_id,
    sum(grouped) AS agent_events,
    uniqExactIfMerge(session_set) AS sessions,
    sumMapIf(by_type, name = 'total') AS types,
    sumForEachIf(by_role, name = 'total') AS roles_seen,
    sumIf(others, name = 'total') AS with_others
FROM (
    SELECT
        grouped,
        session_set,
        by_type,
        by_role,
        others,
        arrayJoin(arrayConcat(
            [('total', toUInt8(0), '', ''), ('role', own_role, '', '')],
            if(has_agent, [('agent', toUInt8(0), toString(shown_platform), if(may_name, toString(own_agent), ''))], []))) AS figure
    FROM (
        WITH
            (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
            host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
            -- A click on another host than that of its token's link is its reporter's, unless the reader may see that host.
            link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
            is_told * session AS shown_session
        SELECT
            role AS own_role,
            role = 1 OR shown_session != 0 AS has_agent,
            is_told AS may_name,
            if(is_told, platform, organization) AS shown_platform,
            agent AS own_agent,
            count() AS grouped,
            uniqExactIfState(shown_session, shown_session != 0) AS session_set,
            sumMap(map(toString(type), toUInt64(1))) AS by_type,
            [countIf(bitTest(roles, 1)), countIf(bitTest(roles, 2)), countIf(bitTest(roles, 3)), countIf(bitTest(roles, 4))] AS by_role,
            countIf(notEmpty(other_agents.role)) AS others
        FROM events FINAL
        WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
            HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
            AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64} OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
            AND NOT startsWith(type, 'turn_')
            AND if({outcome:String} = '', 1, outcome = {outcome:String})
        GROUP BY own_role, has_agent, may_name, shown_platform, own_agent
    )
)
GROUP BY figure
