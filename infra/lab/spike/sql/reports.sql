-- One row per report, wide: with two tables, agents' reads and the wide columns of pages come from here.
CREATE TABLE reports
(
    organization         UUID,
    at                   DateTime64(3, 'UTC') CODEC(Delta, LZ4),
    key                  UInt128 COMMENT 'identity of the report',
    home                 UInt32,
    site                 LowCardinality(String),
    event_place          DateTime64(3, 'UTC') COMMENT 'at of the event''s row',
    event                UInt128 COMMENT 'key of the event''s row',
    type                 UInt8,
    role                 UInt8,
    drain                UInt32,
    agent                LowCardinality(String),
    session              UInt64,
    received_at          DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    session_id           UUID,
    content_url          String CODEC(ZSTD),
    content_id           String CODEC(ZSTD),
    content_telemetry_id String CODEC(ZSTD),
    event_id             String CODEC(ZSTD),
    turn_id              String CODEC(ZSTD),
    output_id            String CODEC(ZSTD),
    data                 String COMMENT 'JSON' CODEC(ZSTD),
    extra                String COMMENT 'JSON' CODEC(ZSTD),
    version              UInt64,
    is_deleted           UInt8
)
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY home
PRIMARY KEY (organization, at)
ORDER BY (organization, at, key)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
