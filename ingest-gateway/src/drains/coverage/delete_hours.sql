DELETE FROM drain_hours WHERE (source, hour) IN (
    SELECT source, hour FROM drain_hours WHERE hour < $1 ORDER BY hour LIMIT $2 FOR UPDATE SKIP LOCKED)
