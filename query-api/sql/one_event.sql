-- An owner's events with one of these keys, newest first, with the places of their reports. PREWHERE is exact only for columns
-- of the sorting key; it limits the other columns to events with one of the keys.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
    -- The time from which events on this host belong to the owner.
    if({is_dated:UInt8}, owned_since(site), {first_ms:Int64}) AS owned_from
SELECT
    key,
    toUnixTimestamp64Milli(at) AS at_ms,
    roles,
    outcome,
    toString(bot) AS bot,
    is_claimed,
    is_seen,
    -- As in events_page.sql.
    toUInt8(link_site = '' OR at_ms >= owned_since(link_site)) AS shows_agent,
    -- Organization, time and identity of each report that the owner may see. Reports from before the owner's time are omitted,
    -- except for the one that represents the event, which the list shows too.
    arrayMap(
        position -> (
            toString(reports.organization[position]),
            toUnixTimestamp64Milli(reports.at[position]),
            if(reports.identity[position] = 0, key, reports.identity[position])
        ),
        arrayFilter(
            position -> position = representative OR toUnixTimestamp64Milli(reports.at[position]) >= owned_from,
            arrayEnumerate(reports.at)
        )
    ) AS visible_reports
FROM events FINAL
PREWHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
    HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND key IN (SELECT toUInt128(arrayJoin({keys:Array(String)})))
WHERE at_ms >= owned_from AND NOT startsWith(type, 'turn_')
ORDER BY at DESC, key
