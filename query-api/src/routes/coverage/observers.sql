-- Organizations whose servers' reports cover hours of the owner: the owner, and its partners now.
SELECT $1::uuid
UNION ALL
SELECT grantee_org_id FROM delegations WHERE grantor_org_id = $1 AND revoked_at IS NULL
