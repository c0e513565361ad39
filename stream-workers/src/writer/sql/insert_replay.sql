-- Inserts the newest row of a replay.
INSERT INTO replays
(
    topic, id, requested, organizations, rate, partitions, next, until, records, events, unreadable, quarantined, changed_events,
    changed_reports, starts, status, message, version, at
)
SELECT *, now64(3, 'UTC') FROM input('
    `topic` String, `id` UUID, `requested` DateTime64(3, \'UTC\'), `organizations` Array(UUID), `rate` UInt32,
    `partitions` Array(Int32), `next` Array(Int64), `until` Array(Int64), `records` UInt64, `events` UInt64, `unreadable` UInt64,
    `quarantined` UInt64, `changed_events` UInt64, `changed_reports` UInt64, `starts` UInt32, `status` Int8, `message` String,
    `version` UInt64
')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
FORMAT RowBinary
