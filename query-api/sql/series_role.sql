-- A series by role: an event counts for each role that reported it, a session for the roles in which it was reported. Each
-- bucket also has a row for all events with 0 in its key, because events without a role count in the extent. Key and extent as
-- in series.sql.
SELECT
    (bucket, if(role_code = 0, 0, 1), '', if(role_code = 0, '', toString(role_code))) AS key,
    events,
    sessions,
    toUInt64(0) AS clicks,
    min(bucket) OVER () AS first_bucket,
    max(bucket) OVER () AS last_bucket,
    uniqExactIf(role_code, role_code != 0) OVER () AS value_count,
    toUInt64(max(role_code != 0) OVER ()) AS longest_name,
    countIf(role_code != 0) OVER () AS cell_count
FROM (
    SELECT bucket, figure.1 AS role_code, figure.2 AS events, figure.3 AS sessions
    FROM (
        SELECT
            intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS bucket,
            arrayJoin([
                (0, count(), toUInt64(0)),
                (1, countIf(place = 1 AND bitTest(roles, 1)), uniqExactIf(one_session, one_role = 1 AND one_session != 0)),
                (2, countIf(place = 1 AND bitTest(roles, 2)), uniqExactIf(one_session, one_role = 2 AND one_session != 0)),
                (3, countIf(place = 1 AND bitTest(roles, 3)), uniqExactIf(one_session, one_role = 3 AND one_session != 0)),
                (4, countIf(place = 1 AND bitTest(roles, 4)), uniqExactIf(one_session, one_role = 4 AND one_session != 0))
            ]) AS figure
        FROM (
            WITH
                (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                    end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                    arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
                link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told
            SELECT at, roles, arrayPushFront(other_agents.role, role) AS all_roles,
                arrayPushFront(other_agents.session, is_told * session) AS all_sessions
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
        ARRAY JOIN all_roles AS one_role, all_sessions AS one_session, arrayEnumerate(all_roles) AS place
        GROUP BY bucket
    )
    WHERE events > 0
)
ORDER BY key
