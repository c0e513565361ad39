-- An index, not a copy: 10 bytes a row instead of 80. It finds the rows of one reporter and time
-- (GET /agent/events) in a table that is sorted by site. It serves reads without FINAL only: look
-- candidates up through it, then read those with FINAL.
ALTER TABLE observations
    ADD PROJECTION IF NOT EXISTS by_reporter (SELECT _part_offset ORDER BY org_id, at)
