-- A series of events, each under one value: that of the column or alias `value`. A bucket is the number of `bucket_ms` since 1970.
-- Every row also has the extent: first and last bucket, distinct values, the bytes of their names, and cells.
SELECT
    cell.1 AS bucket,
    toUInt8(1) AS is_value,
    '' AS owner,
    name,
    cell.2 AS events,
    cell.3 AS sessions,
    toUInt64(0) AS clicks,
    first_bucket,
    last_bucket,
    value_count,
    name_bytes,
    cell_count
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
        SELECT
            toString(one_value) AS name,
            groupArray((one_bucket, one_events, one_sessions)) AS cells,
            min(one_bucket) AS first_cell,
            max(one_bucket) AS last_cell
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
            SELECT
                intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS one_bucket,
                {value:Identifier} AS one_value,
                count() AS one_events,
                uniqExactArrayIf(sessions, is_told) AS one_sessions
            FROM events FINAL
            WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                    OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                AND NOT startsWith(type, 'turn_')
                AND if({outcome:String} = '', 1, outcome = {outcome:String})
            GROUP BY one_bucket, one_value
        )
        GROUP BY one_value
    )
)
ARRAY JOIN cells AS cell
ORDER BY bucket, name
