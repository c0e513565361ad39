-- A series by agent, or by platform: an event counts once under each of those that reported it. `names` is the alias of the agents'
-- names, or of none. Reports without an agent have rows with is_value = 0, because their events count in the extent. Rows and extent
-- as in series.sql.
SELECT cell.1 AS bucket, is_value, owner, name, cell.2 AS events, cell.3 AS sessions, toUInt64(0) AS clicks,
    first_bucket, last_bucket, value_count, name_bytes, cell_count
FROM (
    SELECT
        *,
        min(first_cell) OVER () AS first_bucket,
        max(last_cell) OVER () AS last_bucket,
        countIf(is_value) OVER () AS value_count,
        sumIf(length(owner) + length(name), is_value) OVER () AS name_bytes,
        sumIf(length(cells), is_value) OVER () AS cell_count
    FROM (
        SELECT is_value, owner, name, groupArray((of_bucket, of_events, of_sessions)) AS cells,
            min(of_bucket) AS first_cell, max(of_bucket) AS last_cell
        FROM (
            -- Events whose agent the reader may not see have no session, so the sessions of one agent are in one row.
            SELECT of_bucket, is_value, if(is_value, toString(shown_platform), '') AS owner,
                if(is_value AND is_told, toString(one_agent), '') AS name, sum(some_events) AS of_events, sum(some_sessions) AS of_sessions
            FROM (
                SELECT
                    of_bucket,
                    is_told,
                    one_role = 1 OR (is_told AND one_session != 0) AS is_value,
                    if(is_told, one_platform, organization) AS shown_platform,
                    one_agent,
                    countIf(nth = 1) AS some_events,
                    uniqExactIf(one_session, is_told AND one_session != 0) AS some_sessions
                FROM (
                    WITH
                        (SELECT (groupArray(site), groupArray(since_ms)) FROM visible_hosts) AS visible,
                        (SELECT (groupArray(site), groupArray(since_ms)) FROM told_hosts) AS told,
                        arrayPushFront(other_agents.agent, agent) AS agent_names,
                        arrayMap(one -> '', roles) AS no_names
                    SELECT
                        intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS of_bucket,
                        organization,
                        link_site = ''
                            OR toUnixTimestamp64Milli(at) >= transform(link_site, told.1, told.2, toInt64(9223372036854775807)) AS is_told,
                        arrayPushFront(other_agents.role, role) AS roles,
                        arrayPushFront(other_agents.platform, platform) AS platforms,
                        arrayPushFront(other_agents.session, session) AS sessions,
                        {names:Identifier} AS agents,
                        arrayMap((one_role, one_session) -> one_role = 1 OR one_session != 0, roles, sessions) AS have_agent,
                        -- Numbering the reports of each agent is slow, and needed only if several have one.
                        if(arraySum(have_agent) < 2, have_agent, arrayEnumerateUniq(have_agent, platforms, agents)) AS numbers
                    FROM events FINAL
                    WHERE site IN (SELECT site FROM visible_hosts)
                        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                        AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                        AND ({is_dated:UInt8} = 0 OR toUnixTimestamp64Milli(at) >= transform(site, visible.1, visible.2, {since_ms:Int64}))
                        AND NOT startsWith(type, 'turn_')
                        AND ({outcome:String} = '' OR outcome = {outcome:String})
                )
                ARRAY JOIN roles AS one_role, platforms AS one_platform, agents AS one_agent, sessions AS one_session, numbers AS nth
                GROUP BY of_bucket, is_told, is_value, shown_platform, one_agent
            )
            GROUP BY of_bucket, is_value, owner, name
        )
        GROUP BY is_value, owner, name
    )
)
ARRAY JOIN cells AS cell
ORDER BY bucket, owner, name
