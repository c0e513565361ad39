-- Fetches per host, path, bot and interval. Intervals begin at the times in `changes`, which are sorted; interval 0 is before all of
-- them. The fragment of a URL is not part of its path.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(end -> transform(left(host, end - 1), deciders.1,
        deciders.2, {undecided:Int64}), arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))),
        {never_ms:Int64})) AS owned_since,
    owners AS (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above))),
    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told
SELECT
    site AS host,
    cutFragment(pathFull(url)) AS target,
    toString(bot) AS bot_name,
    any(toString(operator)) AS operator_name,
    any(toString(purpose)) AS purpose_name,
    toUInt64(arrayLastIndex(change -> change <= toUnixTimestamp64Milli(at), {changes:Array(Int64)})) AS interval,
    count() AS fetches,
    toUnixTimestamp64Milli(max(at)) AS last_ms
FROM events FINAL
WHERE site IN owners
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) AS at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
    AND type = 'content_retrieved' AND outcome = 'fetch' AND bot != ''
    -- filters.sql
GROUP BY host, target, bot_name, interval
