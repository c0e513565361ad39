-- Returns a key ID that another manifest of the organization uses for a different key, if any, and how many key versions the
-- organization would have added since $6.
WITH listed AS (
    SELECT * FROM unnest($3::text[], $4::text[], $5::bytea[], $7::timestamptz[]) AS k (key_id, thumbprint, public_key, expires)
)
SELECT
    (SELECT l.key_id FROM listed l JOIN manifest_keys k ON k.organization_id = $1 AND k.manifest_id <> $2 AND k.ended_at IS NULL
         AND k.public_key <> l.public_key
         AND (k.key_id = l.key_id OR k.thumbprint = l.key_id OR k.key_id = l.thumbprint) LIMIT 1),
    (SELECT count(*) FROM manifest_keys WHERE organization_id = $1 AND first_seen > $6)
        + (SELECT count(*) FROM listed l WHERE NOT EXISTS (
               SELECT FROM manifest_keys k WHERE k.manifest_id = $2 AND k.ended_at IS NULL AND k.key_id = l.key_id
               AND k.public_key = l.public_key AND k.expires IS NOT DISTINCT FROM l.expires))
