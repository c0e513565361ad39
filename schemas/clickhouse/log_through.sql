-- On each of several shards: how far the log is on all of them, by partition. The largest counts, so that nothing depends on merges.
CREATE TABLE IF NOT EXISTS log_through
(
    partition  Int32 COMMENT 'of the log',
    next       Int64 COMMENT 'everything before this place is on every shard'
)
ENGINE = ReplacingMergeTree(next)
ORDER BY partition
