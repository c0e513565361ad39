DELETE FROM drain_bad_lines WHERE (source, digest, n) IN (
    SELECT source, digest, n FROM drain_bad_lines WHERE seen_at < $1 ORDER BY seen_at LIMIT $2 FOR UPDATE SKIP LOCKED)
