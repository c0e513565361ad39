-- Extends the latest version, or adds one if the file changed.
WITH latest AS (
    SELECT first_seen, body FROM robots_files WHERE site = $1 ORDER BY first_seen DESC LIMIT 1
), extended AS (
    UPDATE robots_files SET last_seen = $2
    WHERE site = $1 AND first_seen = (SELECT first_seen FROM latest WHERE body = $3)
    RETURNING first_seen
)
INSERT INTO robots_files (site, first_seen, last_seen, body)
SELECT $1, $2, $2, $3 WHERE NOT EXISTS (SELECT FROM extended)
