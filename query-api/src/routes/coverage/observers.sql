-- Organizations whose servers' reports cover hours: the owner and its current partners.
SELECT $1::uuid
UNION ALL
SELECT grantee_org_id FROM delegations WHERE grantor_org_id = $1 AND revoked_at IS NULL
