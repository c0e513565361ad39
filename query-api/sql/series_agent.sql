-- A series by agent, or by platform: an event counts once under each of those that reported it. Reports without an agent have rows
-- with is_value = 0, because their events count in the extent. Rows and extent as in series.sql, groups as in summary.sql.
SELECT cell.1 AS bucket, is_value, owner, name, cell.2 AS events, cell.3 AS sessions,
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
            SELECT of_bucket, is_value, if(is_value, platform_name, '') AS owner, if(is_value, agent_name, '') AS name,
                sumIf(grouped, nth = 1) AS of_events, uniqExactMergeIf(session_set, is_session) AS of_sessions
            FROM (
                SELECT
                    *,
                    arrayMap(is_one -> is_told AND is_one, have_session) AS are_sessions,
                    arrayMap((role, is_one) -> role = 1 OR is_one, all_roles, are_sessions) AS have_agent,
                    arrayMap(platform -> toString(if(is_told, platform, reporter)), all_platforms) AS platforms,
                    arrayMap(agent -> if(is_told AND {with_agent:UInt8}, toString(agent), ''), all_agents) AS agents
                FROM (
                    WITH
                        multiIf(type != 'content_retrieved', '', status = 304, 'revalidation',
                            status = 0 OR status BETWEEN 200 AND 299, 'fetch', 'failed') AS fetch_outcome
                    SELECT
                        intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS of_bucket,
                        reports.role AS all_roles,
                        reports.platform AS all_platforms,
                        reports.agent AS all_agents,
                        arrayMap(session -> session != 0, reports.session) AS have_session,
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
                    GROUP BY of_bucket, all_roles, all_platforms, all_agents, have_session, is_told, reporter
                )
            )
            ARRAY JOIN have_agent AS is_value, platforms AS platform_name, agents AS agent_name, are_sessions AS is_session,
                session_sets AS session_set, arrayEnumerateUniq(have_agent, platforms, agents) AS nth
            GROUP BY of_bucket, is_value, owner, name
        )
        GROUP BY is_value, owner, name
    )
)
ARRAY JOIN cells AS cell
ORDER BY bucket, owner, name
