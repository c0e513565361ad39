-- An organization's own series by bucket and value: its reports, and those of others with its click tokens (clicks). The value
-- depends on `split`: type, role, agent, or empty for one value without a name. Reports without a value have 0 in their key,
-- because they count in the extent. Key, values and extent are otherwise as in series.sql; reports count as in
-- agent_summary.sql.
SELECT
    key,
    sum(some_events) AS events,
    uniqExactIfMerge(some_sessions) AS sessions,
    sum(some_clicks) AS clicks,
    min(key.1) OVER () AS first_bucket,
    max(key.1) OVER () AS last_bucket,
    uniqExactIf((key.2, key.4), key.2 != 0) OVER () AS value_count,
    max(length(key.3) + length(key.4)) OVER () AS longest_name,
    countIf(key.2 != 0) OVER () AS cell_count
FROM (
    SELECT
        if(is_value AND place > {most:UInt64}, (cell.1, 2, '', ''), (cell.1, is_value, '', name)) AS key,
        cell.2 AS some_events,
        cell.3 AS some_sessions,
        cell.4 AS some_clicks
    FROM (
        SELECT
            is_value,
            name,
            groupArray((of_bucket, of_events, of_sessions, of_clicks)) AS cells,
            row_number() OVER (
                PARTITION BY is_value ORDER BY has({known:Array(String)}, name) DESC, sum(of_events + of_clicks) DESC, name) AS place
        FROM (
            SELECT
                intDiv(at_ms, {bucket_ms:Int64}) AS of_bucket,
                multiIf(
                    {split:String} IN ('', 'type'), toUInt8(1),
                    is_issuers = 1, toUInt8(0),
                    {split:String} = 'role', toUInt8(role != 0),
                    has_agent) AS is_value,
                multiIf(
                    is_value = 0 OR {split:String} = '', '',
                    {split:String} = 'type', type_name,
                    {split:String} = 'role', toString(role),
                    agent_name) AS name,
                countIf(is_issuers = 0) AS of_events,
                uniqExactIfState(own_session, is_issuers = 0 AND has_session) AS of_sessions,
                countIf(is_issuers = 1) AS of_clicks
            FROM (
                SELECT
                    toUnixTimestamp64Milli(at) AS at_ms,
                    is_issuers,
                    toString(type) AS type_name,
                    role,
                    if(platform = organization, toString(agent), '') AS agent_name,
                    session AS own_session,
                    toUInt8(platform = organization AND session != toUUID('00000000-0000-0000-0000-000000000000')) AS has_session,
                    toUInt8(role = 1 OR has_session) AS has_agent
                FROM reports FINAL
                WHERE organization = {organization:UUID}
                    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            )
            GROUP BY of_bucket, is_value, name
        )
        GROUP BY is_value, name
    )
    ARRAY JOIN cells AS cell
)
GROUP BY key
ORDER BY key
