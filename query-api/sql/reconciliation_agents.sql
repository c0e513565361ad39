-- Names of the agents that claim fetches on an owner's hosts, shortened to 200 characters: some names per reporter, those
-- with the most fetches. Reporters with servers that cover the hosts are first.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since
SELECT leftUTF8(toString(claim.1), 200) AS agent
FROM events FINAL
ARRAY JOIN arrayZip(reports.agent, reports.organization) AS claim
WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
    HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
    AND at >= fromUnixTimestamp64Milli({scan_from_ms:Int64}, 'UTC')
    AND at < fromUnixTimestamp64Milli({scan_until_ms:Int64}, 'UTC')
    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64} OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
    AND is_claimed
GROUP BY claim.2 AS reporter, agent
ORDER BY reporter IN {observers:Array(UUID)} DESC, count() DESC, reporter, agent
LIMIT {most_per_reporter:UInt64} BY reporter
LIMIT {most:UInt64}
