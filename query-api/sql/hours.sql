-- The hours, as numbers since 1970, in which an edge, an origin or an index reported an event; one row with all of them. An event
-- is in the hour of its own time.
SELECT arraySort(groupUniqArray(intDiv(toUnixTimestamp64Milli(at), 3600000))) AS hours
FROM events FINAL
WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts))
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
    AND if({is_shared:UInt8}, toUnixTimestamp64Milli(at) >= owned_since(site), 1)
    AND bitAnd(roles, 28) != 0
    AND NOT startsWith(type, 'turn_')
