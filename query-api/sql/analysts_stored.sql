-- The stored permissions of analyst accounts, one row per account, including expired ones.
SELECT login, hosts, visible_from_ms, toUnixTimestamp64Milli(until) AS until_ms
FROM analyst_access FINAL
