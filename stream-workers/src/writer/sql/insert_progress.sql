-- Inserts the newest row. Its data follows the statement in one body, because the arrays have an element for each partition.
INSERT INTO progress
(
    topic, beat, complete, partitions, next, since, records, events, rejected_records, rejected_events, suspect_partition,
    suspect_offset, suspect_deaths, at
)
SELECT *, now64(3, 'UTC') FROM input('
    `topic` String, `beat` UInt64, `complete` UInt64, `partitions` Array(Int32), `next` Array(Int64), `since` Array(Int64),
    `records` Array(UInt64), `events` Array(UInt64), `rejected_records` Array(UInt64), `rejected_events` Array(UInt64),
    `suspect_partition` Int32, `suspect_offset` Int64, `suspect_deaths` UInt32
')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
FORMAT RowBinary
