-- Number of endpoints that aren't deleted; of the organization $1, or of all; $2 filters by failing.
SELECT count(*)
FROM webhook_endpoints e
LEFT JOIN LATERAL (
    SELECT last_outcome FROM webhook_queue WHERE endpoint_id = e.id AND last_attempt_at IS NOT NULL
    ORDER BY last_attempt_at DESC LIMIT 1) latest ON true
WHERE e.deleted_at IS NULL AND ($1::uuid IS NULL OR e.organization_id = $1)
  AND ($2::boolean IS NULL OR coalesce(e.disabled_at IS NULL AND latest.last_outcome <> 'delivered', false) = $2)
