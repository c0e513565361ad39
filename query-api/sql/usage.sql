-- Reports of each organization and the time of its latest one.
SELECT organization, count() AS events, toUnixTimestamp64Milli(max(at)) AS last_ms
FROM reports FINAL
WHERE is_issuers = 0 AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
GROUP BY organization
