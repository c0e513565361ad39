-- Active keys of an organization, and the latest revoked ones.
SELECT *
FROM api_keys_shown
WHERE organization_id = $1
  AND (revoked_at IS NULL OR id IN (
      SELECT id FROM api_keys WHERE organization_id = $1 AND revoked_at IS NOT NULL ORDER BY revoked_at DESC, id LIMIT $2))
ORDER BY created_at, id
