-- Inserts a session that an accepted record names, for a call that needs it before the worker has stored it.
-- $1 organization, $2 session, $3 level that its events declared, $4 now.
INSERT INTO sessions AS s (organization_id, session_id, privacy_level, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (organization_id, session_id) DO UPDATE SET privacy_level = least(s.privacy_level, excluded.privacy_level)
