-- Ends the current versions that the manifest no longer lists, and updates `last_seen` of the others.
UPDATE manifest_keys k SET
    ended_at = CASE WHEN l.key_id IS NULL THEN $2 END,
    last_seen = CASE WHEN l.key_id IS NULL THEN k.last_seen ELSE $2 END
FROM manifest_keys old
LEFT JOIN unnest($3::text[], $4::bytea[], $5::timestamptz[]) AS l (key_id, public_key, expires)
    ON l.key_id = old.key_id AND l.public_key = old.public_key AND l.expires IS NOT DISTINCT FROM old.expires
WHERE old.manifest_id = $1 AND old.ended_at IS NULL AND k.id = old.id
RETURNING CASE WHEN l.key_id IS NULL THEN k.thumbprint END
