-- Claims due deliveries of all endpoints and organizations in turn, so that no backlog delays others. The organization with the
-- fewest running attempts is next; ties are broken at random, because by age an old backlog would always win. An organization has
-- no more running attempts than are left for all others, as in service_kit::slots. The recursion steps from one endpoint with
-- pending deliveries to the next in the index, so its cost doesn't depend on their number. The share lock on an endpoint makes
-- disabling it wait; if it was disabled first, nothing is claimed.
WITH RECURSIVE clock (at) AS (SELECT now() + $1 * interval '1 microsecond'),
waiting (endpoint_id) AS (
    (SELECT endpoint_id FROM webhook_queue WHERE status = 'pending' ORDER BY endpoint_id LIMIT 1)
    UNION ALL
    SELECT (SELECT q.endpoint_id FROM webhook_queue q
            WHERE q.status = 'pending' AND q.endpoint_id > w.endpoint_id ORDER BY q.endpoint_id LIMIT 1)
    FROM waiting w WHERE w.endpoint_id IS NOT NULL
),
open AS MATERIALIZED (
    SELECT e.id, e.url, e.secret_sealed, coalesce(n.room, $4) AS room, clock.at
    FROM clock CROSS JOIN waiting w JOIN webhook_endpoints e ON e.id = w.endpoint_id
    LEFT JOIN unnest($5::uuid[], $6::int[]) AS n (id, room) ON n.id = e.id
    WHERE e.disabled_at IS NULL AND coalesce(n.room, $4) > 0 AND EXISTS (
        SELECT FROM webhook_queue q WHERE q.endpoint_id = e.id AND q.status = 'pending' AND q.due_at <= clock.at)
    FOR SHARE OF e SKIP LOCKED
),
due AS MATERIALIZED (
    SELECT q.delivery_id, q.organization_id, q.due_at,
           row_number() OVER (PARTITION BY open.id ORDER BY q.due_at, q.delivery_id) AS turn
    FROM open CROSS JOIN LATERAL (
        SELECT delivery_id, organization_id, due_at FROM webhook_queue
        WHERE endpoint_id = open.id AND status = 'pending' AND due_at <= open.at
        ORDER BY due_at, delivery_id LIMIT open.room FOR UPDATE SKIP LOCKED) q
),
ranked AS (
    SELECT delivery_id, random() AS lot,
           row_number() OVER (PARTITION BY organization_id ORDER BY turn, due_at) - 1 + coalesce(busy.attempts, 0) AS before
    FROM due LEFT JOIN unnest($7::uuid[], $8::int[]) AS busy (organization_id, attempts) USING (organization_id)
),
placed AS (
    SELECT delivery_id, before, $3 - row_number() OVER (ORDER BY before, lot) + 1 AS free FROM ranked
),
picked AS MATERIALIZED (SELECT delivery_id FROM placed WHERE before < free)
UPDATE webhook_queue q SET lease = gen_random_uuid(), due_at = open.at + $2 * interval '1 microsecond'
FROM picked p JOIN webhook_deliveries d ON d.id = p.delivery_id JOIN open ON open.id = d.endpoint_id
WHERE q.delivery_id = p.delivery_id AND q.status = 'pending' AND q.due_at <= open.at
RETURNING q.delivery_id, q.endpoint_id, q.organization_id, q.lease, q.attempts, d.event_type, d.body, open.url, open.secret_sealed,
          open.at AS started_at
