-- How far the log is in the store. The active writer inserts a row after each block, and every two seconds if there is none; the newest
-- counts. Merges leave one row per topic.
CREATE TABLE IF NOT EXISTS progress
(
    topic             String,
    beat              UInt64 COMMENT 'epoch of the writer in the upper 24 bits, number of its row in the lower 40; the largest is the newest',
    complete          UInt64 COMMENT 'version of the last complete block',
    partitions        Array(Int32),
    next              Array(Int64) COMMENT 'of each partition the offset of the next record to read',
    suspect_partition Int32 COMMENT 'the record that is being decoded, if writers died lately; -1: none is suspected',
    suspect_offset    Int64,
    suspect_deaths    UInt32 COMMENT 'writers that died while they decoded it',
    at                DateTime64(3, 'UTC') COMMENT 'when the row was inserted'
)
ENGINE = ReplacingMergeTree(beat)
ORDER BY topic
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
