-- What analyst accounts may see, as it was stored last: one row per account, also of those whose rights have ended.
SELECT login, hosts, visible_from_ms, toUnixTimestamp64Milli(until) AS until_ms
FROM analyst_access FINAL
