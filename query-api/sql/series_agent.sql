-- A series by agent or platform: an event counts once for each agent that reported it. `names` is the alias of the agents'
-- names, or of empty names. Reports without an agent have 0 in their key, because their events count in the extent. Key, values
-- and extent are otherwise as in series.sql.
SELECT
    key,
    sum(some_events) AS events,
    uniqExactIfMerge(some_sessions) AS sessions,
    toUInt64(0) AS clicks,
    min(key.1) OVER () AS first_bucket,
    max(key.1) OVER () AS last_bucket,
    uniqExactIf((key.2, key.3, key.4), key.2 != 0) OVER () AS value_count,
    max(length(key.3) + length(key.4)) OVER () AS longest_name,
    countIf(key.2 != 0) OVER () AS cell_count
FROM (
    SELECT
        if(value.1 AND place > {most:UInt64}, (cell.1, 2, '', ''), (cell.1, value.1, value.2, value.3)) AS key,
        cell.2 AS some_events,
        cell.3 AS some_sessions
    FROM (
        SELECT
            value,
            groupArray((of_bucket, of_events, of_sessions)) AS cells,
            row_number() OVER (PARTITION BY value.1 ORDER BY sum(of_events) DESC, value) AS place
        FROM (
            -- Events whose agent the reader may not see have no session, so they don't add sessions to other agents.
            SELECT
                of_bucket,
                one_role = 1 OR (is_told AND one_session != 0) AS has_agent,
                (has_agent, if(has_agent, toString(if(is_told, one_platform, organization)), ''),
                    if(has_agent AND is_told, toString(one_agent), '')) AS value,
                countIf(nth = 1) AS of_events,
                uniqExactIfState(one_session, is_told AND one_session != 0) AS of_sessions
                FROM (
                    WITH
                        (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                        host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                            end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                            arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))),
                            {never_ms:Int64})) AS owned_since,
                        arrayPushFront(other_agents.agent, agent) AS agent_names,
                        arrayMap(one -> '', all_roles) AS no_names
                    SELECT
                        intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS of_bucket,
                        organization,
                        link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                        arrayPushFront(other_agents.role, role) AS all_roles,
                        arrayPushFront(other_agents.platform, platform) AS platforms,
                        arrayPushFront(other_agents.session, session) AS sessions,
                        {names:Identifier} AS agents,
                        arrayMap((one_role, one_session) -> one_role = 1 OR one_session != 0, all_roles, sessions) AS have_agent,
                        -- Numbering the reports of each agent is slow and needed only if several reports have one.
                        if(arraySum(have_agent) < 2, have_agent, arrayEnumerateUniq(have_agent, platforms, agents)) AS numbers
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
                ARRAY JOIN all_roles AS one_role, platforms AS one_platform, agents AS one_agent, sessions AS one_session, numbers AS nth
            GROUP BY of_bucket, value
        )
        GROUP BY value
    )
    ARRAY JOIN cells AS cell
)
GROUP BY key
ORDER BY key
