-- A session that events named while PostgreSQL did not answer ingest-gateway is written by stream-workers, from the record of the
-- events, by the same statement: what was said first stays, and a level only tightens.
COMMENT ON TABLE sessions IS 'Written by ingest-gateway, and by stream-workers what PostgreSQL did not take of the sessions that events name';
COMMENT ON COLUMN sessions.agent_named_at IS 'By the clock of whoever wrote it: the gateway, or the worker';
