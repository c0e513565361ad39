-- $1: id; $2: whether they are restored; $3: reporter
SELECT l.id, l.origin, l.reason, l.rejected_at, l.bytes, l.organization_id, o.name AS organization_name, l.request_id, l.restored_as,
       CASE WHEN l.restored_as IS NULL AND NOT w.is_waiting THEN l.refusal END AS refusal,
       CASE WHEN l.restored_as IS NOT NULL THEN 'restored' WHEN w.is_waiting THEN 'retrying'
            WHEN l.refusal IS NOT NULL THEN 'refused' ELSE 'open' END AS status
FROM dead_letters l
LEFT JOIN organizations o ON o.id = l.organization_id
LEFT JOIN dead_letter_retries r ON r.dead_letter_id = l.id
CROSS JOIN LATERAL (SELECT r.requested_at IS NOT NULL AND (l.tried_at IS NULL OR l.tried_at < r.requested_at) AS is_waiting) w
WHERE ($1::uuid IS NULL OR l.id = $1)
  AND ($2::boolean IS NULL OR (l.restored_as IS NOT NULL) = $2)
  AND ($3::uuid IS NULL OR l.organization_id = $3)
ORDER BY l.rejected_at DESC, l.id LIMIT $4 OFFSET $5
