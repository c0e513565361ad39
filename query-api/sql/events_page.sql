-- A page of an owner's list: the length of the list, and for each event on the page its key, time, roles, whether the owner may
-- see its agent, and the place of the report that represents it. Always returns one row.
--
-- One pass counts all events per ten minutes, so only the events up to the end of the page are sorted, and arrays are read only
-- near the events on the page. All parts of a statement read one snapshot, so total and page agree.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
    -- A click on another host than that of its token's link belongs to its reporter, unless the reader owns the link's host
    -- too.
    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
    listed AS (
        SELECT
            site,
            at,
            key,
            toUnixTimestamp64Milli(at) AS at_ms,
            -- Events after the cursor; all events on the first page.
            if({is_next:UInt8}, at_ms < {after_ms:Int64} OR (at_ms = {after_ms:Int64} AND key > {after_key:UInt128}), 1) AS is_after
        FROM events FINAL
        WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
            HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
            AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            -- On hosts with a previous owner, only later events.
            AND if({is_dated:UInt8}, at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
            AND NOT startsWith(type, 'turn_')
            -- filters.sql
    ),
    -- The number of events, and a time that no event on the page precedes.
    (
        SELECT (sum(events_listed), minIf(ms, events_before < {through:UInt64}))
        FROM (
            SELECT intDiv(at_ms, 600000) * 600000 AS ms, count() AS events_listed, countIf(is_after) AS events_after,
                sum(events_after) OVER (ORDER BY ms DESC) - events_after AS events_before
            FROM listed
            GROUP BY ms
        )
    ) AS counted
SELECT
    assumeNotNull(counted.1) AS total,
    groupArray((
        key,
        toUnixTimestamp64Milli(at),
        roles,
        toUInt8(is_told),
        toString(organization),
        toUnixTimestamp64Milli(reports.at[representative]),
        if(reports.identity[representative] = 0, key, reports.identity[representative]),
        outcome,
        toString(bot)
    )) AS events
FROM events FINAL
WHERE (site, at, key) IN (
    SELECT site, at, key
    FROM listed
    -- Compares numbers: ClickHouse sends times in such a condition to other shards as text, which they may parse as another
    -- time.
    WHERE is_after AND at_ms >= assumeNotNull(counted.2)
    ORDER BY at DESC, key
    LIMIT {limit:UInt64} OFFSET {offset:UInt64}
)
