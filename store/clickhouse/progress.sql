-- Stored offsets of the log, and how many of its records were stored and rejected. The active writer inserts a row after each
-- block, and more often than the silence after which a standby takes over; the newest row counts. On SIGTERM it inserts a last row
-- with the largest beat of its epoch. Merges keep one row per topic.
CREATE TABLE IF NOT EXISTS progress
(
    topic             String,
    beat              UInt64 COMMENT 'epoch of the writer in the upper 24 bits, number of its row in the lower 40; the largest is the newest',
    complete          UInt64 COMMENT 'version of the last complete block',
    partitions        Array(Int32) COMMENT 'the following arrays have one element for each of them',
    next              Array(Int64) COMMENT 'offset of the next record to read',
    since             Array(Int64) COMMENT 'offset at which counting began; what was read since then:',
    records           Array(UInt64) COMMENT 'records; if there are fewer than offsets, retention had dropped the others',
    events            Array(UInt64) COMMENT 'events that are stored, repeats included',
    rejected_records  Array(UInt64) COMMENT 'records that became dead letters',
    rejected_events   Array(UInt64) COMMENT 'events of those, as far as they could be counted',
    suspect_partition Int32 COMMENT 'the record that is being decoded, if writers died lately; -1: none is suspected',
    suspect_offset    Int64,
    suspect_deaths    UInt32 COMMENT 'writers that died while they decoded it',
    at                DateTime64(3, 'UTC') COMMENT 'when the row was inserted'
)
ENGINE = ReplacingMergeTree(beat)
ORDER BY topic
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
