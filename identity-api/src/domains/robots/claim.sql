-- Reschedules due checks and returns their sites. New domains are due immediately.
WITH verified AS (
    SELECT DISTINCT site FROM domains
    WHERE verified_at IS NOT NULL AND released_at IS NULL AND proof_due_at IS NOT NULL
), added AS (
    INSERT INTO robots_checks (site, due_at)
    SELECT site, $2 FROM verified
    WHERE NOT EXISTS (SELECT FROM robots_checks WHERE robots_checks.site = verified.site)
    ORDER BY site LIMIT $3
    ON CONFLICT DO NOTHING
    RETURNING site
), due AS (
    SELECT site FROM robots_checks
    WHERE due_at <= $1 AND site IN (SELECT site FROM verified)
    ORDER BY due_at LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
), moved AS (
    UPDATE robots_checks SET due_at = $2 WHERE site IN (SELECT site FROM due) RETURNING site
)
SELECT site FROM added UNION ALL SELECT site FROM moved
