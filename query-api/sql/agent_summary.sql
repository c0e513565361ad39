-- An organization's own figures in one pass: its reports in total and by type, role and agent, and what other organizations
-- reported with its click tokens in total (clicks) and by type (click). Each report counts once, at its own time. If the
-- organization used another organization's token, the report has no session and no agent. Types and agents beyond the maximum
-- are one row per figure with is_other = 1, as in summary.sql.
SELECT figure, is_other, name, sum(some_events) AS events, uniqExactIfMerge(session_set) AS sessions
FROM (
    SELECT
        *,
        row_number() OVER (PARTITION BY figure
            ORDER BY figure != 'agent' AND has({known:Array(String)}, one_name) DESC, some_events DESC, one_name) AS place,
        place > multiIf(figure = 'agent', {most_agents:UInt64}, figure IN ('type', 'click'), {most_types:UInt64}, place) AS is_other,
        if(is_other, '', one_name) AS name
    FROM (
        SELECT
            multiIf(
                is_issuers = 1 AND grouping(type_name) = 1, 'clicks',
                is_issuers = 1, 'click',
                grouping(type_name) = 0, 'type',
                grouping(role) = 0, 'role',
                grouping(agent_name) = 0, 'agent',
                'total'
            ) AS figure,
            multiIf(grouping(type_name) = 0, type_name, grouping(role) = 0, toString(role), agent_name) AS one_name,
            count() AS some_events,
            uniqExactIfState(own_session, has_session) AS session_set
        FROM (
            SELECT
                is_issuers,
                toString(type) AS type_name,
                role,
                if(platform = organization, toString(agent), '') AS agent_name,
                session AS own_session,
                platform = organization AND session != toUUID('00000000-0000-0000-0000-000000000000') AS has_session,
                role = 1 OR has_session AS has_agent
            FROM reports FINAL
            WHERE organization = {organization:UUID}
                AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        )
        GROUP BY GROUPING SETS (
            (is_issuers),
            (is_issuers, type_name),
            (is_issuers, role),
            (is_issuers, has_agent, agent_name)
        )
        -- Clicks aren't counted by role or agent. Reports without a role or agent are left out of that breakdown.
        HAVING (is_issuers = 0 OR (grouping(role) = 1 AND grouping(agent_name) = 1))
            AND (grouping(role) = 1 OR role != 0)
            AND (grouping(agent_name) = 1 OR has_agent)
    )
)
GROUP BY figure, is_other, name
