-- Returns the levels of the sessions that exist. $1 organizations, $2 sessions.
SELECT s.organization_id, s.session_id, s.privacy_level
FROM unnest($1::uuid[], $2::uuid[]) AS asked (org, session)
JOIN sessions s ON s.organization_id = asked.org AND s.session_id = asked.session
