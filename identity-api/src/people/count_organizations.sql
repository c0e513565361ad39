-- Organizations whose name or verified domain contains $1, or all. Only trusted partners, or only others, as $2 says; only those that
-- the partner $3 set up.
SELECT count(*)
FROM organizations o
WHERE ($1::text IS NULL OR strpos(lower(o.name), lower($1)) > 0
       OR EXISTS (SELECT FROM domains d WHERE d.organization_id = o.id AND d.verified_at IS NOT NULL AND d.released_at IS NULL
                                         AND strpos(d.domain, lower($1)) > 0))
  AND ($2::boolean IS NULL OR o.is_trusted_partner = $2)
  AND ($3::uuid IS NULL OR o.provisioned_by = $3)
