-- Organizations whose name or verified domain contains $1, or all; at most $2 after skipping $3; $4 filters by trusted partner;
-- $5 filters by the partner that created them.
SELECT o.id, o.name, o.org_type, coalesce(d.domains, '{}') AS domains,
       (SELECT count(*) FROM memberships m WHERE m.organization_id = o.id) AS members,
       o.is_trusted_partner, o.provisioned_by, o.created_at
FROM organizations o
LEFT JOIN LATERAL (
    SELECT array_agg(domain ORDER BY domain) AS domains FROM domains
    WHERE organization_id = o.id AND verified_at IS NOT NULL AND released_at IS NULL) d ON true
WHERE ($1::text IS NULL OR strpos(lower(o.name), lower($1)) > 0
       OR EXISTS (SELECT FROM unnest(d.domains) AS domain WHERE strpos(domain, lower($1)) > 0))
  AND ($4::boolean IS NULL OR o.is_trusted_partner = $4)
  AND ($5::uuid IS NULL OR o.provisioned_by = $5)
