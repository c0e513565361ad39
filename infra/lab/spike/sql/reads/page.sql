-- The newest 100 events and the number of all, in one statement.
WITH (SELECT count() FROM events FINAL
    WHERE site IN {sites:Array(String)}
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')) AS total
SELECT total, at, key, site, type, roles, agent, url, bot, status, reports.organization, reports.identity
FROM events FINAL
WHERE site IN {sites:Array(String)}
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
ORDER BY at DESC, key DESC
LIMIT 100
