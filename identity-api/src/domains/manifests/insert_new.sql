-- Inserts the listed versions that are not current.
INSERT INTO manifest_keys (manifest_id, organization_id, first_seen, last_seen, key_id, thumbprint, public_key, expires)
SELECT $1, $2, $3, $3, l.key_id, l.thumbprint, l.public_key, l.expires
FROM unnest($4::text[], $5::text[], $6::bytea[], $7::timestamptz[]) AS l (key_id, thumbprint, public_key, expires)
ON CONFLICT (manifest_id, key_id) WHERE ended_at IS NULL DO NOTHING
RETURNING thumbprint
