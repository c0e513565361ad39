-- The hosts that have events, of some domains: one row per domain. Which of them the reader may see is decided in
-- reads/scope.rs. A host without events is missing, so it is in none of the statements that follow.
SELECT groupUniqArray(site) AS sites
FROM sites
WHERE domain IN {domains:Array(String)}
GROUP BY domain
