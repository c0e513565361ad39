-- The hours, as numbers since 1970, in which an edge, an origin or an index reported an event; one row with all of them. An event
-- is in the hour of its own time.
WITH (SELECT (groupArray(site), groupArray(since_ms)) FROM visible_hosts) AS visible
SELECT arraySort(groupUniqArray(intDiv(toUnixTimestamp64Milli(at), 3600000))) AS hours
FROM events FINAL
WHERE site IN (SELECT site FROM visible_hosts)
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND ({is_dated:UInt8} = 0 OR toUnixTimestamp64Milli(at) >= transform(site, visible.1, visible.2, {since_ms:Int64}))
    AND bitAnd(roles, 28) != 0
    AND NOT startsWith(type, 'turn_')
