-- Registered domains of the organizations $1, oldest first, with the total per organization: all, or at most $2 of each. The
-- oldest one of each is always included; verified ones come next.
SELECT d.*
FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT *, count(*) OVER () AS domain_count FROM domains
    WHERE organization_id = o.id AND released_at IS NULL
    ORDER BY row_number() OVER (ORDER BY created_at, id) > 1, verified_at IS NULL, created_at, id
    LIMIT $2) d
ORDER BY d.created_at, d.id
