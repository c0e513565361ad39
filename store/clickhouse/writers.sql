-- Epochs of writers. The writer with the largest epoch is active, and inserts of other writers fail (docs/operating/writer.md). A
-- slot is the secret query id of an epoch's inserts: ClickHouse doesn't run two statements with one query id at a time. The row of
-- epoch 0 contains the slot of claims. Rows are never deleted.
CREATE TABLE IF NOT EXISTS writers
(
    epoch  UInt64,
    writer String COMMENT 'host and process of the writer',
    topic  String COMMENT 'the log that it reads',
    shard  String COMMENT 'which part of the reports these tables have: 1/1, or 2/3 for the second of three',
    slot   String,
    at     DateTime64(3, 'UTC') COMMENT 'when the epoch was claimed'
)
ENGINE = MergeTree
ORDER BY epoch
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
