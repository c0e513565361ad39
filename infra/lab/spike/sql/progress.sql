-- The next offset of each partition, written after `events` for every block.
CREATE TABLE progress
    (epoch UInt64, seq UInt64, topic LowCardinality(String), partition Int32, next_offset Int64, at DateTime64(3, 'UTC'))
ENGINE = MergeTree ORDER BY (topic, partition, epoch, seq) SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
