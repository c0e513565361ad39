-- Deletes all but the latest unreadable lines of a drain.
DELETE FROM drain_bad_lines
WHERE source = $1 AND (digest, n) IN (
    SELECT digest, n FROM drain_bad_lines WHERE source = $1 ORDER BY seen_at DESC, digest, n OFFSET $2 FOR UPDATE SKIP LOCKED)
