-- Every host that occurs in `events`, once: reads look up which of an owner's hosts have events, so that their statements can name
-- them. A host is inserted before its first event. Rows are never deleted.
CREATE TABLE IF NOT EXISTS sites
(
    domain String COMMENT 'reversed registrable domain of the host, or the host itself if it has none',
    site   String COMMENT 'reversed canonical host'
)
ENGINE = ReplacingMergeTree
ORDER BY (domain, site)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
