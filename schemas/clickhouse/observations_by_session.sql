-- As by_reporter: the rows of one session, for click manifests and session documents.
ALTER TABLE observations
    ADD PROJECTION IF NOT EXISTS by_session (SELECT _part_offset ORDER BY platform_id, session_id)
