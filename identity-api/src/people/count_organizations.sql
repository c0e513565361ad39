-- Number of organizations whose name or verified domain contains $1, or of all; $2 filters by trusted partner; $3 filters by the
-- partner that created them.
SELECT count(*)
FROM organizations o
WHERE ($1::text IS NULL OR strpos(lower(o.name), lower($1)) > 0
       OR EXISTS (SELECT FROM domains d WHERE d.organization_id = o.id AND d.verified_at IS NOT NULL AND d.released_at IS NULL
                                         AND strpos(d.domain, lower($1)) > 0))
  AND ($2::boolean IS NULL OR o.is_trusted_partner = $2)
  AND ($3::uuid IS NULL OR o.provisioned_by = $3)
