-- Like hours.sql, by host.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since
SELECT
    arrayStringConcat(arrayReverse(splitByChar('.', site)), '.') AS host,
    arraySort(groupUniqArray(intDiv(toUnixTimestamp64Milli(at), 3600000))) AS hours
FROM events FINAL
WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
    HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64} OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
    AND bitAnd(roles, 28) != 0
    AND arrayExists((role, by) -> role IN (2, 3, 4) AND by IN {observers:Array(UUID)}, reports.role, reports.organization)
    AND NOT startsWith(type, 'turn_')
GROUP BY site
