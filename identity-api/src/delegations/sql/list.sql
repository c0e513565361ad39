-- Active delegations of an organization, as grantor ($2) and as grantee ($3), oldest first.
SELECT d.*, r.name AS grantor_name, e.name AS grantee_name
FROM delegations d
JOIN organizations r ON r.id = d.grantor_org_id
JOIN organizations e ON e.id = d.grantee_org_id
WHERE d.revoked_at IS NULL AND (($2 AND d.grantor_org_id = $1) OR ($3 AND d.grantee_org_id = $1))
ORDER BY d.created_at, d.id
LIMIT $4 OFFSET $5
