-- The session that delegated work to this one, as the envelope of an event names it; an upload's stands in `extra`, as it
-- was written. What was said first stays. Written by ingest-gateway.
ALTER TABLE sessions ADD COLUMN parent_session_id text;
