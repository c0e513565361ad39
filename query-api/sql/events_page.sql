-- A page of an owner's list: how many events the list has, and of each event on the page its key, time and roles, whether the owner
-- may see whose agent it was, and the place of the report that represents it. Always returns one row.
--
-- One pass over all events counts them by ten minutes, so that only those down to the page's end have to be sorted. Arrays are read
-- around the events on the page only. All parts of a statement read one snapshot, so total and page agree.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
    -- A click on another host than its token's link belongs to its reporter, unless the link's host is the reader's too.
    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS shows_agent,
    listed AS (
        SELECT
            site,
            at,
            key,
            toUnixTimestamp64Milli(at) AS at_ms,
            -- What follows the last event of the previous page; on the first page everything.
            if({is_next:UInt8}, at_ms < {after_ms:Int64} OR (at_ms = {after_ms:Int64} AND key > {after_key:UInt128}), 1) AS is_after
        FROM events FINAL
        WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
            HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
            AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            -- Of hosts that had another owner, what happened since then.
            AND if({is_dated:UInt8}, at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
            AND NOT startsWith(type, 'turn_')
            -- Filters compare what the owner sees. Each is off unless it is set; ClickHouse doesn't resolve what `if` leaves out.
            AND if({is_filtered:UInt8},
                ({event_type:String} = '' OR type = {event_type:String})
                    AND ({outcome:String} = '' OR outcome = {outcome:String})
                    AND ({has_agent:UInt8} = 0 OR if(shows_agent, agent, '') = {agent:String})
                    AND ({has_platform:UInt8} = 0 OR if(shows_agent, platform, organization) = {platform:UUID}),
                1)
    ),
    -- All events of the list, and a time before which no event of the page is.
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
        toUInt8(shows_agent),
        toString(organization),
        toUnixTimestamp64Milli(reports.at[representative]),
        if(reports.identity[representative] = 0, key, reports.identity[representative])
    )) AS events
FROM events FINAL
WHERE (site, at, key) IN (
    SELECT site, at, key
    FROM listed
    -- A number, because ClickHouse sends a time in such a condition to other shards as text that they may read as another time.
    WHERE is_after AND at_ms >= assumeNotNull(counted.2)
    ORDER BY at DESC, key
    LIMIT {limit:UInt64} OFFSET {offset:UInt64}
)
