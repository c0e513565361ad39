SELECT url, count() AS events, uniqExactIf(session, session != 0) AS sessions, max(at) AS last_seen
FROM events FINAL
WHERE site IN {sites:Array(String)}
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
GROUP BY url
ORDER BY events DESC, url
LIMIT 20
