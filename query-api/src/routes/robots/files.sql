-- The robots.txt files of hosts, with the versions that apply in a period, oldest first. Hosts without a version have one row.
SELECT checks.site, checks.state, checks.checked_at, files.first_seen, files.body
FROM robots_checks AS checks
LEFT JOIN LATERAL (
    SELECT first_seen, body, lead(first_seen) OVER (ORDER BY first_seen) AS replaced
    FROM robots_files WHERE robots_files.site = checks.site
) AS files ON files.first_seen < $3 AND (files.replaced IS NULL OR files.replaced > $2)
WHERE checks.site = ANY($1)
ORDER BY checks.site, files.first_seen
