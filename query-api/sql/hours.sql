-- The hours, as numbers since 1970, in which an edge, an origin or an index reported an event; one row with all of them. An event
-- is in the hour of its own time.
WITH (SELECT (told, told_since, dated, dated_since) FROM host_times) AS hosts
SELECT arraySort(groupUniqArray(intDiv(toUnixTimestamp64Milli(at), 3600000))) AS hours
FROM events FINAL
WHERE site IN (SELECT site FROM visible_hosts)
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= transform(site, hosts.3, hosts.4, {since_ms:Int64}), 1)
    AND bitAnd(roles, 28) != 0
    AND NOT startsWith(type, 'turn_')
