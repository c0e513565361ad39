-- $1: now; $2, $3, $4: organizations with reports, their numbers and latest times; $5, $6, $7: limits of keys, drains and members.
-- A limit is near if at least 80 % is used. A drain is silent if it sent no lines from the last 24 hours.
WITH used AS (
    SELECT o.id AS organization_id, o.name AS organization_name, o.org_type, coalesce(sent.events, 0) AS events, sent.last_event_at,
           (SELECT count(*) FROM api_keys k WHERE k.organization_id = o.id AND k.revoked_at IS NULL
                AND (k.expires_at IS NULL OR k.expires_at > $1)) AS keys,
           d.drains, d.silent_drains,
           (SELECT count(*) FROM memberships m WHERE m.organization_id = o.id) AS members,
           (SELECT coalesce(sum(r.requests), 0)::bigint FROM refused_reports r
            WHERE r.organization_id = o.id AND r.status = 429 AND r.last_at > $1 - interval '1 day') AS limited_requests
    FROM organizations o
    LEFT JOIN unnest($2::uuid[], $3::bigint[], $4::timestamptz[]) AS sent (organization_id, events, last_event_at)
        ON sent.organization_id = o.id
    CROSS JOIN LATERAL (
        SELECT count(*) AS drains, count(*) FILTER (WHERE d.created_at < $1 - interval '1 day' AND NOT EXISTS (
            SELECT FROM drain_hours h WHERE h.source = d.id AND h.hour > $1 - interval '1 day')) AS silent_drains
        FROM drains d WHERE d.organization_id = o.id AND d.deleted_at IS NULL) d)
SELECT *, array_remove(ARRAY[CASE WHEN keys >= $5::bigint * 0.8 THEN 'keys' END, CASE WHEN drains >= $6::bigint * 0.8 THEN 'drains' END,
                             CASE WHEN members >= $7::bigint * 0.8 THEN 'members' END], NULL) AS near_limits
FROM used
