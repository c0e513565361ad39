-- Requests to process a part of the log again (`telemetry stream-workers replay`). The command inserts a row with version 0. The
-- active writer processes requests one by one, between blocks of the log, and inserts a row with a larger version after each block.
-- Read it with FINAL. Rows are never deleted.
CREATE TABLE IF NOT EXISTS replays
(
    topic           String,
    id              UUID,
    requested       DateTime64(3, 'UTC') COMMENT 'when it was requested; the oldest is processed first',
    organizations   Array(UUID) COMMENT 'only what these have reported; empty: what all have',
    rate            UInt32 COMMENT 'most events per second; 0: no limit',
    partitions      Array(Int32) COMMENT 'the following three arrays have one element for each of them',
    next            Array(Int64) COMMENT 'offset of the next record to read',
    until           Array(Int64) COMMENT 'offset behind the last record to read',
    records         UInt64 COMMENT 'records that were read',
    events          UInt64 COMMENT 'their events',
    unreadable      UInt64 COMMENT 'records that became dead letters, or would',
    quarantined     UInt64 COMMENT 'records that were skipped because processes have died while they decoded them',
    changed_events  UInt64 COMMENT 'rows that the replay inserted into events; 0 if nothing was missing',
    changed_reports UInt64 COMMENT 'rows that the replay inserted into reports',
    starts          UInt32 COMMENT 'writers that have begun or continued it since its last block',
    status          Enum8('waiting' = 0, 'running' = 1, 'done' = 2, 'failed' = 3),
    message         String COMMENT 'why it failed, or what was unexpected',
    version         UInt64 COMMENT '0, or a number of the writer as in progress.beat; the largest stays',
    at              DateTime64(3, 'UTC') COMMENT 'when the row was inserted'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (topic, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
