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
        SELECT is_value, if(is_value, toString(shown_platform), '') AS owner, toString(shown_agent) AS name,
            groupArray((of_bucket, of_events, of_sessions)) AS cells,
            min(of_bucket) AS first_cell, max(of_bucket) AS last_cell
        FROM (
            -- Events whose agent the reader may not see have no session, so they add none to that of another agent.
            SELECT
                of_bucket,
                one_role = 1 OR (is_told AND one_session != 0) AS is_value,
                multiIf(NOT is_value, toUUID('00000000-0000-0000-0000-000000000000'), is_told, one_platform, organization)
                    AS shown_platform,
                if(is_value AND is_told, one_agent, '') AS shown_agent,
                countIf(nth = 1) AS of_events,
                uniqExactIf(one_session, is_told AND one_session != 0) AS of_sessions
                FROM (
                    WITH
                        (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                        host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                            end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                            arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))),
                            {never_ms:Int64})) AS owned_since,
                        arrayPushFront(other_agents.agent, agent) AS agent_names,
                        arrayMap(one -> '', roles) AS no_names
                    SELECT
                        intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS of_bucket,
                        organization,
                        link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                        arrayPushFront(other_agents.role, role) AS roles,
                        arrayPushFront(other_agents.platform, platform) AS platforms,
                        arrayPushFront(other_agents.session, session) AS sessions,
                        {names:Identifier} AS agents,
                        arrayMap((one_role, one_session) -> one_role = 1 OR one_session != 0, roles, sessions) AS have_agent,
                        -- Numbering the reports of each agent is slow, and needed only if several have one.
                        if(arraySum(have_agent) < 2, have_agent, arrayEnumerateUniq(have_agent, platforms, agents)) AS numbers
                    FROM events FINAL
                    WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                        AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                        AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                            OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                        AND NOT startsWith(type, 'turn_')
                        AND if({outcome:String} = '', 1, outcome = {outcome:String})
                )
                ARRAY JOIN roles AS one_role, platforms AS one_platform, agents AS one_agent, sessions AS one_session, numbers AS nth
            GROUP BY of_bucket, is_value, shown_platform, shown_agent
        )
        GROUP BY is_value, shown_platform, shown_agent
    )
)
ARRAY JOIN cells AS cell
ORDER BY bucket, owner, name
