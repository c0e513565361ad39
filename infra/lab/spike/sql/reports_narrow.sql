-- One row per report, narrow: with three tables, what agents' reads filter and group by.
CREATE TABLE reports_narrow
(
    organization UUID,
    at           DateTime64(3, 'UTC') CODEC(Delta, LZ4),
    key          UInt128,
    home         UInt32,
    site         LowCardinality(String),
    event_place  DateTime64(3, 'UTC'),
    event        UInt128,
    type         UInt8,
    role         UInt8,
    drain        UInt32,
    agent        LowCardinality(String),
    session      UInt64,
    version      UInt64,
    is_deleted   UInt8
)
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY home
PRIMARY KEY (organization, at)
ORDER BY (organization, at, key)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
