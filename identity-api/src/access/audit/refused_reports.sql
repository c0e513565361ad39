-- Rejected reports of the organization $1 since the hour of $2: one row per reason, newest first, at most $3.
SELECT route, status, code, field, rule, sum(requests)::bigint AS requests, max(last_at) AS last_at,
       (array_agg(last_request_id ORDER BY last_at DESC))[1] AS last_request_id
FROM refused_reports
WHERE organization_id = $1 AND hour >= date_trunc('hour', $2::timestamptz, 'UTC')
GROUP BY route, status, code, field, rule
ORDER BY max(last_at) DESC, route, code, field, rule LIMIT $3 OFFSET $4
