-- One live row per event, narrow. `home` is set when the key is first written and never changes.
CREATE TABLE events
(
    site         String COMMENT 'reversed host, com.example.news',
    at           DateTime64(3, 'UTC') CODEC(Delta, LZ4),
    key          UInt128,
    home         UInt32,
    type         UInt8,
    roles        UInt8 COMMENT 'bit set of the roles that reported it',
    agent        LowCardinality(String) COMMENT 'of the report that represents the event',
    session      UInt64 COMMENT 'digest, of the report that represents the event; 0 if none',
    url          String CODEC(ZSTD),
    bot          LowCardinality(String),
    purpose      UInt8,
    verification UInt8,
    status       UInt16,
    bytes        UInt32,
    signature    UInt8,
    tier         UInt8,
    -- At most one report per observer, ordered by acceptance.
    `reports.organization` Array(UUID) CODEC(ZSTD),
    `reports.role`         Array(UInt8),
    `reports.drain`        Array(UInt32),
    `reports.agent`        Array(LowCardinality(String)),
    `reports.session`      Array(UInt64),
    `reports.at`           Array(DateTime64(3, 'UTC')) CODEC(Delta, ZSTD),
    `reports.received`     Array(UInt64) COMMENT 'microseconds, then 12 bits for the place in the request' CODEC(Delta, ZSTD),
    `reports.identity`     Array(UInt128) COMMENT '0 if it equals the key',
    version      UInt64 COMMENT 'epoch of the writer, then 40 bits for the number of its block',
    is_deleted   UInt8
)
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY home
PRIMARY KEY (site, at)
ORDER BY (site, at, key)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
