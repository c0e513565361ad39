-- On each of several shards: how far all of them have the log, by partition. A read shows the reports below. The largest counts, on
-- whichever shard it is, so that nothing depends on merges and a worker that dies before it has told all shards has told enough.
CREATE TABLE IF NOT EXISTS high_watermarks
(
    partition       Int32 COMMENT 'of the log',
    high_watermark  Int64 COMMENT 'every report before this offset is on its shard'
)
ENGINE = ReplacingMergeTree(high_watermark)
ORDER BY partition
