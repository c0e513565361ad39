-- One row is one observation: one report of one event by one observer. Written by stream-workers only.
--
-- The sorting key is the identity of an observation and nothing else: a replayed, retried or repeated report has the same key
-- and merges. It never contains an observer's clock, because observers of one fetch can report times on both sides of
-- midnight. `version` is larger for older reports, so the first accepted report stays.
--
-- Read it with FINAL, or by distinct (site, event_key). A count() without either counts repeats.
--
-- A session belongs to its reporter, or to the organization whose click token bound the event. `issuer_id`, which the server
-- computes, finds events that another organization reported; it is zero in nearly every row, so most granules are skipped.
-- `link` decides what is shown to whom (docs/api/click-tokens.md, "What a token tells"): the reporter is not shown a URL that
-- was taken from the token, and the owner of another host than the token's is not shown the session, unless that owner also
-- owns `link_site`, the host of the token's link. A row without a value counts as the strictest.
--
-- The columns from `bot` on say who fetched the content and what the response was, as a CDN or server reports it, by a drain or
-- in the event's `data`. They are columns because reads group by them. No column contains an IP address or a user agent
-- (docs/api/crawlers.md, "Columns").
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
    -- Computed from the upper part of `version`; a stored copy would cost 6 of 95 bytes per row.
    received_at          DateTime64(6, 'UTC') ALIAS fromUnixTimestamp64Micro(toInt64(bitShiftRight(bitNot(version), 12)), 'UTC')
                         COMMENT 'when the gateway accepted it',
    session_id           UUID COMMENT 'the reporter''s session; all zero: none',
    platform_id          UUID DEFAULT org_id COMMENT 'whose session it is',
    issuer_id            UUID DEFAULT if(platform_id = org_id, toUUID('00000000-0000-0000-0000-000000000000'), platform_id)
                         COMMENT 'who issued the click token that bound it, when another reported it; all zero: nobody',
    link                 Enum8('' = 0, 'taken' = 1, 'same' = 2, 'other' = 3) DEFAULT if(platform_id = org_id, '', 'other')
                         COMMENT 'of what another''s click token bound: its URL is the token''s, on the same host, or on another',
    link_site            String DEFAULT '' COMMENT 'reversed host that the token''s link leads to, where link is other; empty: nobody can own it, or it is not said' CODEC(ZSTD),
    agent_id             LowCardinality(String) COMMENT 'as the reporter names its agent; empty: none',
    content_url          String CODEC(ZSTD),
    content_id           String CODEC(ZSTD),
    content_telemetry_id String CODEC(ZSTD),
    event_id             String COMMENT 'the reporter''s own id; empty: none' CODEC(ZSTD),
    turn_id              String CODEC(ZSTD),
    output_id            String CODEC(ZSTD),
    data                 String COMMENT 'JSON object as reported; empty: none' CODEC(ZSTD),
    extra                String COMMENT 'JSON object of the members this build does not know; empty: none' CODEC(ZSTD),
    bot                  LowCardinality(String) DEFAULT '' COMMENT 'the bot by the table of bots; other: the CDN says that it is one; empty: not known',
    operator             LowCardinality(String) DEFAULT '' COMMENT 'whose bot it is',
    purpose              LowCardinality(String) DEFAULT '' COMMENT 'training, search or user',
    verified             Enum8('unknown' = 0, 'no' = 1, 'yes' = 2) DEFAULT 'unknown' COMMENT 'whether it asked from an address that its operator publishes',
    response_status      UInt16 DEFAULT 0 COMMENT 'HTTP status of the answer; 0: not known',
    response_bytes       UInt64 DEFAULT 0 COMMENT 'bytes of the answer' CODEC(ZSTD),
    cache_status         LowCardinality(String) DEFAULT '' COMMENT 'in the words of who reports it',
    asn                  UInt32 DEFAULT 0 COMMENT 'autonomous system of the request; 0: not known' CODEC(ZSTD),
    country              LowCardinality(String) DEFAULT '' COMMENT 'of the request',
    media_type           LowCardinality(String) DEFAULT '' COMMENT 'of the answer',
    bots_version         LowCardinality(String) DEFAULT '' COMMENT 'edition of the table of bots that was asked',
    INDEX by_issuer issuer_id TYPE set(1000) GRANULARITY 1,
    -- The times of acceptance in a part: a page of events needs only parts with rows accepted at about the same time as its own.
    INDEX by_acceptance version TYPE minmax GRANULARITY 1,
    -- Indexes, not copies: 10 bytes per row instead of 80. They find the rows of a reporter and time (GET /agent/events) and of a
    -- session (click manifests and session documents) in a table that is sorted by site. They work without FINAL only: find
    -- candidates through them, then read those with FINAL.
    PROJECTION by_reporter (SELECT _part_offset ORDER BY org_id, at),
    PROJECTION by_session (SELECT _part_offset ORDER BY platform_id, session_id)
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (site, event_key, org_id, observer)
-- The rows of a page and of a session are scattered, and each costs its granule and the compressed block of every column: small
-- granules, and blocks of 8 KiB instead of 64 KiB, which cost 2 bytes per row. Merges drop rows, so projections, which point into
-- a part, are rebuilt with it.
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024, deduplicate_merge_projection_mode = 'rebuild',
    min_compress_block_size = 8192, max_compress_block_size = 65536
