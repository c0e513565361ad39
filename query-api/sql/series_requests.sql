-- A series of events and of log lines whose request returned no content, each under one value: that of the column or alias `value`.
-- Lines have no session. Rows and extent as in series.sql.
SELECT cell.1 AS bucket, toUInt8(1) AS is_value, '' AS owner, name, cell.2 AS events, cell.3 AS sessions, toUInt64(0) AS clicks,
    first_bucket, last_bucket, value_count, name_bytes, cell_count
FROM (
    SELECT
        name,
        cells,
        min(first_cell) OVER () AS first_bucket,
        max(last_cell) OVER () AS last_bucket,
        count() OVER () AS value_count,
        sum(length(name)) OVER () AS name_bytes,
        sum(length(cells)) OVER () AS cell_count
    FROM (
        SELECT name, groupArray((one_bucket, all_events, all_sessions)) AS cells,
            min(one_bucket) AS first_cell, max(one_bucket) AS last_cell
        FROM (
            SELECT one_bucket, name, sum(some_events) AS all_events, sum(some_sessions) AS all_sessions
            FROM (
                WITH
                    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
                    '' AS nothing,
                    if(verified = 'unknown', '', toString(verified)) AS verified_name,
                    if(status = 0, '', toString(status)) AS status_name,
                    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                    if(empty(other_agents.session), if(session = 0, [], [session]),
                        arrayFilter(one -> one != 0, arrayPushFront(other_agents.session, session))) AS sessions
                SELECT intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS one_bucket, toString({value:Identifier}) AS name,
                    count() AS some_events, uniqExactArrayIf(sessions, is_told) AS some_sessions
                FROM events FINAL
                WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                    HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                        OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                    AND NOT startsWith(type, 'turn_')
                    AND if({outcome:String} = '', 1, outcome = {outcome:String})
                GROUP BY one_bucket, name
                UNION ALL
                SELECT one_bucket, name, count(), toUInt64(0)
                FROM (
                    WITH
                        (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                        host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                            end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                            arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))),
                            {never_ms:Int64})) AS owned_since,
                        '' AS nothing,
                        if(verified = 'unknown', '', toString(verified)) AS verified_name,
                        toString(status) AS status_name
                    SELECT intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS one_bucket, toString({value:Identifier}) AS name
                    FROM failed_fetches FINAL
                    WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                        AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                        AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                            OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                        AND if({outcome:String} = '', 1, outcome = {outcome:String})
                    -- Copies of a line can be in several partitions.
                    SETTINGS do_not_merge_across_partitions_select_final = 0
                )
                GROUP BY one_bucket, name
            )
            GROUP BY one_bucket, name
        )
        GROUP BY name
    )
)
ARRAY JOIN cells AS cell
ORDER BY bucket, name
