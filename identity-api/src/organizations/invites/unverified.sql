-- Creation time of the invite to the address $1 after skipping the newest $5, among those created after $4 by content owners
-- without a verified domain and without a partner. Returns no rows if the organization $2, created by the partner $3 if any,
-- isn't such a sender.
WITH unverified AS NOT MATERIALIZED (
    SELECT o.id FROM organizations o WHERE o.org_type = 'content_owner'
    AND NOT EXISTS (SELECT FROM domains d WHERE d.organization_id = o.id AND d.verified_at IS NOT NULL AND d.released_at IS NULL)
)
SELECT i.created_at FROM invites i
WHERE i.email = $1 AND i.created_at > $4 AND i.provisioned_by IS NULL AND i.organization_id IN (SELECT id FROM unverified)
  AND $3::uuid IS NULL AND $2 IN (SELECT id FROM unverified)
ORDER BY i.created_at DESC OFFSET $5 LIMIT 1
