-- The owner's log lines with a correlation id, one row per drain. A line joins an event if other observers report it too. It is
-- a separate event if an earlier line of the drain has the same id and URL.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since
SELECT
    toString(drain) AS drain_id,
    count() AS lines,
    countIf(length(reports.drain) > 1) AS joined,
    -- Stored as 0 if it equals the event's key, which is the case for separate events.
    countIf(identity = 0) AS reused
FROM events FINAL
ARRAY JOIN
    reports.drain AS drain,
    reports.organization AS reporter,
    reports.identity AS identity
WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
    HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64} OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
    AND reporter = {owner:UUID}
    AND drain != toUUID('00000000-0000-0000-0000-000000000000')
GROUP BY drain
ORDER BY drain_id
