-- Every host that occurs in `events`, once for itself and once for each host above it that somebody could own: statements about an
-- owner's hosts look up which hosts at or beneath them have events. A host is inserted before its first event. Rows are never
-- deleted.
CREATE TABLE IF NOT EXISTS sites
(
    above String COMMENT 'reversed canonical host: the host itself, or a host above it',
    site  String COMMENT 'reversed canonical host'
)
ENGINE = ReplacingMergeTree
ORDER BY (above, site)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
