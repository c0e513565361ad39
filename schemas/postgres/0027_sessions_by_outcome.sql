-- How an organisation's sessions of a time ended: a session's outcome belongs to its end, else to its start, else to when it
-- was first heard of. Read by query-api; written with the session.
CREATE INDEX sessions_by_outcome ON sessions (organization_id, (coalesce(ended_at, started_at, created_at)))
    WHERE outcome IS NOT NULL;
