-- The figures of a summary: one row for everything (`total`), one per role and one per agent. The row for everything also has the
-- events by type and by the roles that reported them: bit n is set for role n.
--
-- Most events differ only in time, URL and session. So events are counted by type and by their reports' roles, platforms and
-- agents first, with a set of sessions per report; only the few groups are split by report. An event counts once for each agent.
SELECT
    figure.1 AS name,
    figure.2 AS role_code,
    figure.3 AS platform_id,
    figure.4 AS agent_id,
    sumIf(grouped, is_first_of_agent) AS agent_events,
    uniqExactMergeIf(session_set, is_session) AS sessions,
    sumMapIf([(event_type, seen_by)], [grouped], is_first AND name = 'total') AS by_type
FROM (
    SELECT
        event_type,
        seen_by,
        grouped,
        place = 1 AS is_first,
        has_agent AND nth_of_agent = 1 AS is_first_of_agent,
        session_set,
        is_session,
        arrayJoin(arrayConcat(
            [('total', toUInt8(0), '', ''), ('role', one_role, '', '')],
            if(has_agent, [('agent', toUInt8(0), platform_name, agent_name)], []))) AS figure
    FROM (
        SELECT
            *,
            arrayMap(is_one -> is_told AND is_one, have_session) AS are_sessions,
            arrayMap((role, is_one) -> role = 1 OR is_one, all_roles, are_sessions) AS have_agent,
            arrayMap(platform -> toString(if(is_told, platform, reporter)), all_platforms) AS platforms,
            arrayMap(agent -> if(is_told, toString(agent), ''), all_agents) AS agents
        FROM (
            WITH
                multiIf(type != 'content_retrieved', '', status = 304, 'revalidation',
                    status = 0 OR status BETWEEN 200 AND 299, 'fetch', 'failed') AS fetch_outcome
            SELECT
                toString(type) AS event_type,
                roles AS seen_by,
                reports.role AS all_roles,
                reports.platform AS all_platforms,
                reports.agent AS all_agents,
                arrayMap(session -> session != 0, reports.session) AS have_session,
                -- A click on another host than that of its token's link is its reporter's, unless the reader may see that host.
                link_site = '' OR toUnixTimestamp64Milli(at) >= transform(
                    link_site, {told_sites:Array(String)}, {told_from:Array(Int64)}, toInt64(9223372036854775807)) AS is_told,
                if(is_told, toUUID('00000000-0000-0000-0000-000000000000'), organization) AS reporter,
                count() AS grouped,
                uniqExactStateForEach(reports.session) AS session_sets
            FROM events FINAL
            WHERE site IN {sites:Array(String)}
                AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                AND ({is_dated:UInt8} = 0 OR toUnixTimestamp64Milli(at) >= transform(
                    site, {late_sites:Array(String)}, {late_from:Array(Int64)}, {since_ms:Int64}))
                AND NOT startsWith(type, 'turn_')
                AND ({outcome:String} = '' OR fetch_outcome = {outcome:String})
            GROUP BY type, roles, all_roles, all_platforms, all_agents, have_session, is_told, reporter
        )
    )
    ARRAY JOIN
        arrayEnumerate(all_roles) AS place,
        all_roles AS one_role,
        platforms AS platform_name,
        agents AS agent_name,
        have_agent AS has_agent,
        are_sessions AS is_session,
        session_sets AS session_set,
        arrayEnumerateUniq(have_agent, platforms, agents) AS nth_of_agent
)
GROUP BY figure
