-- Hosts with events that the signed-in account can see, and since when. Fails if the account's access was not checked recently.
-- `authenticatedUser` is the account that signed in; `currentUser` is the name that a client of the native protocol claims.
CREATE VIEW IF NOT EXISTS analyst_sites AS
WITH
    (
        SELECT (argMax(hosts, checked), argMax(visible_from_ms, checked), throwIf(argMax(until, checked) <= now64(3),
            'What this analyst account may see was not checked lately. Try again in a minute, then ask the operator of the service.'))
        FROM analyst_access
        WHERE login = authenticatedUser()
    ) AS access,
    -- `transform` requires lists that aren't empty, and a hyphen is never a host.
    arrayPushBack(access.1, '-') AS hosts,
    arrayPushBack(access.2, toInt64(0)) AS visible_from_ms,
    toInt64(-2208988800000) AS year_1900,
    toInt64(-9223372036854775808) AS undecided,
    toInt64(9223372036854775807) AS never,
    arrayFirstOrNull(
        from_ms -> from_ms != undecided,
        arrayMap(
            end -> transform(left(site, end - 1), hosts, visible_from_ms, undecided),
            arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', site))))) AS decided_ms
SELECT DISTINCT site, assumeNotNull(decided_ms) - year_1900 AS since
FROM sites
WHERE above IN (SELECT arrayJoin(access.1)) AND decided_ms IS NOT NULL AND decided_ms != never
