-- Number of deliveries to the endpoint $1 of the organization $2 with the status $3, or of all; pending ones of a disabled
-- endpoint count as dropped.
SELECT count(*)
FROM webhook_deliveries d
JOIN webhook_queue q ON q.delivery_id = d.id
JOIN webhook_endpoints e ON e.id = d.endpoint_id
WHERE d.endpoint_id = $1 AND d.organization_id = $2
  AND ($3::text IS NULL OR $3 = CASE WHEN q.status = 'pending' AND e.disabled_at IS NOT NULL THEN 'dropped' ELSE q.status END)
