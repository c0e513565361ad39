-- The organizations that reported events of an owner's month, and the number of their reports and of bots' log lines.
WITH
    own AS (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
SELECT
    arrayMap(id -> toString(id), groupUniqArrayArray(reports.organization)) AS organizations,
    sum(length(reports.organization)) + assumeNotNull((SELECT count() FROM failed_fetches WHERE site IN own
        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC'))) AS report_count
FROM events FINAL
WHERE site IN own
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
