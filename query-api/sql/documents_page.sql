-- A page of an owner's events for its export, newest first, with the reports that the owner may see: place, agent and session
-- of each, in order of acceptance. Arrays are read only for the events on the page.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
    -- As in events_page.sql.
    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
    if({is_dated:UInt8}, owned_since(site), {first_ms:Int64}) AS owned_from
SELECT
    key,
    toUnixTimestamp64Milli(at) AS at_ms,
    toUInt8(is_told) AS shows_agent,
    -- An identity is stored as 0 if it equals the event's key, which a shared key never does.
    toUInt8(reports.identity[1] != 0) AS is_joined,
    arrayMap(
        position -> (
            toString(reports.organization[position]),
            toUnixTimestamp64Milli(reports.at[position]),
            if(reports.identity[position] = 0, key, reports.identity[position]),
            -- Servers stay unnamed, unless their report represents the event (one_event.sql).
            if(position = representative OR reports.role[position] = 1 OR reports.session[position] != 0,
                toString(reports.agent[position]), ''),
            reports.session[position]
        ),
        arrayFilter(
            position -> position = representative OR toUnixTimestamp64Milli(reports.at[position]) >= owned_from,
            arrayEnumerate(reports.at)
        )
    ) AS visible_reports
FROM events FINAL
WHERE (site, at, key) IN (
    SELECT site, at, key
    FROM events FINAL
    WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND (toUnixTimestamp64Milli(at) < {after_ms:Int64}
            OR (toUnixTimestamp64Milli(at) = {after_ms:Int64} AND key > {after_key:UInt128}))
        -- On hosts with a previous owner, only later events.
        AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64} OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
        AND NOT startsWith(type, 'turn_')
        -- filters.sql
    ORDER BY at DESC, key
    LIMIT {limit:UInt64}
)
ORDER BY at DESC, key
