-- A page of an owner's list: how many events the list has, and of each event on the page its key, time and roles, whether the owner
-- may see whose agent it was, and the place of the report that represents it. Always returns one row.
--
-- One pass over all events counts them by ten minutes, so that only those of the page's minutes have to be sorted. Arrays are read
-- around the events on the page only. All parts of a statement read one snapshot, so total and page agree.
WITH
    listed AS (
        SELECT
            site,
            at,
            key,
            roles,
            organization,
            representative,
            reports.at AS reported_at,
            reports.identity AS identities,
            toUnixTimestamp64Milli(at) AS at_ms,
            -- What follows the last event of the previous page; on the first page everything.
            at_ms < {after_ms:Int64} OR (at_ms = {after_ms:Int64} AND key > {after_key:UInt128}) AS is_after,
            -- A click on another host than its token's link belongs to its reporter, unless the link's host is the reader's too.
            link_site = '' OR at_ms >= transform(
                link_site, {told_sites:Array(String)}, {told_from:Array(Int64)}, toInt64(9223372036854775807)) AS shows_agent
        FROM events FINAL
        WHERE site IN {sites:Array(String)}
            AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            -- Of hosts that had another owner, what happened since then.
            AND ({is_dated:UInt8} = 0 OR at_ms >= transform(
                site, {late_sites:Array(String)}, {late_from:Array(Int64)}, {since_ms:Int64}))
            AND NOT startsWith(type, 'turn_')
            -- Filters compare what the owner sees. Each is off unless it is set.
            AND ({event_type:String} = '' OR type = {event_type:String})
            AND ({has_agent:UInt8} = 0 OR if(shows_agent, agent, '') = {agent:String})
            AND ({has_platform:UInt8} = 0 OR if(shows_agent, platform, organization) = {platform:UUID})
    ),
    -- All events of the list, the times between which the page is, and how many events are before that.
    (
        SELECT (sum(listed_events), minIf(ms, is_on_page), maxIf(ms, is_on_page) + 600000, minIf(events_before, is_on_page))
        FROM (
            SELECT ms, listed_events, sum(events_after) OVER (ORDER BY ms DESC) - events_after AS events_before,
                events_before < {through:UInt64} AND events_before + events_after > {offset:UInt64} AS is_on_page
            FROM (
                SELECT intDiv(at_ms, 600000) * 600000 AS ms, count() AS listed_events, countIf(is_after) AS events_after
                FROM listed
                GROUP BY ms
            )
        )
    ) AS bounds
SELECT
    assumeNotNull(bounds.1) AS total,
    groupArray((
        key,
        at_ms,
        roles,
        toUInt8(shows_agent),
        toString(organization),
        toUnixTimestamp64Milli(reported_at[representative]),
        if(identities[representative] = 0, key, identities[representative])
    )) AS events
FROM listed
WHERE (site, at, key) IN (
    SELECT site, at, key
    FROM (
        SELECT site, at, key, row_number() OVER (ORDER BY at DESC, key) + assumeNotNull(bounds.4) AS place
        FROM listed
        WHERE is_after
            AND at >= fromUnixTimestamp64Milli(assumeNotNull(bounds.2), 'UTC')
            AND at < fromUnixTimestamp64Milli(assumeNotNull(bounds.3), 'UTC')
    )
    WHERE place > {offset:UInt64} AND place <= {through:UInt64}
)
