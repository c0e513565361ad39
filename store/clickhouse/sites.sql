-- Hosts in `events`: one row for the host itself and one for each parent that an organization can verify. Reads use it to find
-- which of an owner's hosts and subdomains have events. A host is inserted before its first event. Rows are never deleted.
CREATE TABLE IF NOT EXISTS sites
(
    above String COMMENT 'reversed canonical host: the host itself or one of its parents',
    site  String COMMENT 'reversed canonical host'
)
ENGINE = ReplacingMergeTree
ORDER BY (above, site)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
