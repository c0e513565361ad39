-- One row per report, wide, next to the event: with three tables, the wide columns of pages come from here.
CREATE TABLE observations AS reports
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY home
PRIMARY KEY (site, event_place)
ORDER BY (site, event_place, event, key)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
