-- The hosts that have events, of some domains: one row per domain. Which of them the reader may see is decided in
-- reads/scope.rs. A host without events is missing, so it is in none of the statements that follow.
WITH arrayCumSum(label -> length(label) + 1, splitByChar('.', domain)) AS ends
SELECT groupUniqArray(site) AS sites
FROM sites
WHERE domain IN (SELECT domain FROM asked_domains)
    -- A registrable domain can be beneath another one: x.mythic-beasts.com is a public suffix, mythic-beasts.com isn't.
    OR (domain > {first:String} AND domain < {end:String}
        AND arrayExists(above -> above IN (SELECT host FROM asked_hosts), arrayMap(end -> left(domain, end - 1), ends)))
GROUP BY domain
