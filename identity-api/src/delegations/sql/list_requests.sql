-- Pending requests of an organization, as grantor ($2) and as requester ($3), oldest first.
SELECT r.*, q.name AS requester_name, g.name AS grantor_name
FROM delegation_requests r
JOIN organizations q ON q.id = r.requester_org_id
JOIN organizations g ON g.id = r.grantor_org_id
WHERE r.status = 'pending' AND r.expires_at > $4 AND (($2 AND r.grantor_org_id = $1) OR ($3 AND r.requester_org_id = $1))
ORDER BY r.created_at, r.id
LIMIT $5 OFFSET $6
