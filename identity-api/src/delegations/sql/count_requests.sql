SELECT count(*) FROM delegation_requests
WHERE status = 'pending' AND expires_at > $4 AND (($2 AND grantor_org_id = $1) OR ($3 AND requester_org_id = $1))
