-- One row is one observation: one report of one event by one observer. Written by stream-workers only.
--
-- The sorting key is the identity of an observation and nothing else: a replayed, retried or repeated report
-- lands on the same key and merges. It must never hold an observer's clock, because observers of one retrieval
-- straddle midnight. `version` grows with age, so that of two repeats the first accepted one stays.
--
-- Read it with FINAL, or by distinct (site, event_key). A count() without either counts repeats.
CREATE TABLE IF NOT EXISTS observations
(
    site                 String COMMENT 'reversed canonical host, com.example.blog; empty when nobody can own it',
    event_key            UInt128 COMMENT 'identity for counting; all observers of one retrieval share it',
    org_id               UUID COMMENT 'the reporting organisation',
    observer             UInt8 COMMENT 'the role where observers merge on the key, else 0',
    version              UInt64 COMMENT 'the older the report, the larger',
    source_role          Enum8('' = 0, 'agent' = 1, 'edge' = 2, 'origin' = 3, 'index' = 4),
    event_type           LowCardinality(String),
    at                   DateTime64(3, 'UTC') COMMENT 'when it happened, by the observer''s clock',
    received_at          DateTime64(6, 'UTC') COMMENT 'when the gateway accepted it',
    session_id           UUID COMMENT 'the reporter''s session; all zero: none',
    agent_id             LowCardinality(String) COMMENT 'as the reporter names its agent; empty: none',
    content_url          String CODEC(ZSTD),
    content_id           String CODEC(ZSTD),
    content_telemetry_id String CODEC(ZSTD),
    event_id             String COMMENT 'the reporter''s own id; empty: none' CODEC(ZSTD),
    turn_id              String CODEC(ZSTD),
    output_id            String CODEC(ZSTD),
    data                 String COMMENT 'JSON object as reported; empty: none' CODEC(ZSTD),
    extra                String COMMENT 'JSON object of the members this build does not know; empty: none' CODEC(ZSTD)
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (site, event_key, org_id, observer)
-- Rows of a page and of a session are read by their keys, one here and one there: of each its granule.
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024
