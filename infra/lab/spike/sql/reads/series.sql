SELECT toDate(at) AS day, agent, count() AS events, uniqExactIf(session, session != 0) AS sessions
FROM events FINAL
WHERE site IN {sites:Array(String)}
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
GROUP BY day, agent
ORDER BY day, agent
