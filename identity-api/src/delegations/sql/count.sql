SELECT count(*) FROM delegations
WHERE revoked_at IS NULL AND (($2 AND grantor_org_id = $1) OR ($3 AND grantee_org_id = $1))
