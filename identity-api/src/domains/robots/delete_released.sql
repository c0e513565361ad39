-- Deletes the files of domains that aren't verified and weren't due since $1.
WITH released AS (
    DELETE FROM robots_checks
    WHERE due_at < $1 AND NOT EXISTS (
        SELECT FROM domains WHERE domains.site = robots_checks.site AND verified_at IS NOT NULL AND released_at IS NULL
    )
    RETURNING site
)
DELETE FROM robots_files WHERE site IN (SELECT site FROM released)
