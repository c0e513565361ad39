-- An organization's own series: its reports, and what others did with its click tokens (clicks), by bucket and value. The value is that
-- of `split`: type, role, agent, or empty for one value without a name. Reports without a value have a row per bucket with
-- is_value = 0, because they count in the extent. Rows and extent as in series.sql; reports count as in agent_summary.sql.
SELECT
    cell.1 AS bucket,
    is_value,
    '' AS owner,
    name,
    cell.2 AS events,
    cell.3 AS sessions,
    cell.4 AS clicks,
    first_bucket,
    last_bucket,
    value_count,
    name_bytes,
    cell_count
FROM (
    SELECT
        *,
        min(first_cell) OVER () AS first_bucket,
        max(last_cell) OVER () AS last_bucket,
        countIf(is_value) OVER () AS value_count,
        sumIf(length(name), is_value) OVER () AS name_bytes,
        sumIf(length(cells), is_value) OVER () AS cell_count
    FROM (
        SELECT
            is_value,
            name,
            groupArray((of_bucket, of_events, of_sessions, of_clicks)) AS cells,
            min(of_bucket) AS first_cell,
            max(of_bucket) AS last_cell
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
                uniqExactIf(own_session, is_issuers = 0 AND has_session) AS of_sessions,
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
)
ARRAY JOIN cells AS cell
ORDER BY bucket, name
