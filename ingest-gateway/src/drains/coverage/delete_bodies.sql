DELETE FROM drain_bodies WHERE (source, digest) IN (
    SELECT source, digest FROM drain_bodies WHERE received_at < $1 ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED)
