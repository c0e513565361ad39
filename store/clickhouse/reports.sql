-- One live row per report, with everything that was reported. If a click token bound the report to another organization's session,
-- that organization has a second row. Read it by organization and time, or by the places in `events.reports`. Only the active
-- writer inserts rows, before it inserts into `events`.
CREATE TABLE IF NOT EXISTS reports
(
    organization         UUID COMMENT 'the reporting organization; in an issuer''s row the issuer of the click token',
    at                   DateTime64(3, 'UTC') COMMENT 'reported time' CODEC(Delta, ZSTD(1)),
    identity             UInt128 COMMENT 'copies of one report have the same',
    home                 UInt32 COMMENT 'partition: the month in which the report was first written; never changes',
    is_issuers           UInt8 COMMENT '1 in the row of an issuer: session, platform and agent are its own, another organization reported the rest',
    group_key            UInt128 COMMENT 'the key that the report shares with other observers; 0 if it shares none',
    received             UInt64 COMMENT 'when it was accepted: microseconds * 4096 + place in the request' CODEC(Delta, ZSTD(1)),
    site                 LowCardinality(String) COMMENT 'reversed canonical host; empty if it is not a host that can be owned',
    type                 LowCardinality(String),
    source_role          UInt8 COMMENT 'the reported role: 0 none, 1 agent, 2 edge, 3 origin, 4 index',
    role                 UInt8 COMMENT 'the role it counts for: the reported one, or agent for types that only agents report',
    drain                UUID COMMENT 'drain of a log line that carries a correlation id; all zero otherwise' CODEC(ZSTD(1)),
    platform             UUID COMMENT 'the organization whose session it is' CODEC(ZSTD(1)),
    session              UUID COMMENT 'all zero if none' CODEC(ZSTD(1)),
    link                 Enum8('' = 0, 'taken' = 1, 'same' = 2, 'other' = 3) COMMENT 'of another organization''s click token: its URL is the token''s, on the same host, or on another',
    link_site            String COMMENT 'reversed host that the token''s link leads to, where link is other' CODEC(ZSTD(1)),
    agent                LowCardinality(String),
    url                  String CODEC(ZSTD(1)),
    content_id           String CODEC(ZSTD(1)),
    content_telemetry_id String CODEC(ZSTD(1)),
    event_id             String COMMENT 'the reporter''s id; empty if none' CODEC(ZSTD(1)),
    turn_id              String CODEC(ZSTD(1)),
    output_id            String CODEC(ZSTD(1)),
    data                 String COMMENT 'JSON object as reported; empty if none' CODEC(ZSTD(1)),
    extra                String COMMENT 'JSON object of unknown members; empty if none' CODEC(ZSTD(1)),
    bot                  LowCardinality(String),
    operator             LowCardinality(String),
    purpose              LowCardinality(String),
    verified             Enum8('unknown' = 0, 'no' = 1, 'yes' = 2),
    status               UInt16,
    bytes                UInt64 CODEC(ZSTD(1)),
    cache_status         LowCardinality(String),
    asn                  UInt32 CODEC(ZSTD(1)),
    country              LowCardinality(String),
    media_type           LowCardinality(String),
    bots_version         LowCardinality(String),
    signature            Enum8('none' = 0, 'invalid' = 1, 'valid' = 2) COMMENT 'of the report, or of the fetch in its log line (docs/api/signatures.md#results)',
    signature_reason     LowCardinality(String) COMMENT 'why it is invalid',
    signed_by            String COMMENT 'of a fetch: origin of the agent''s key set' CODEC(ZSTD(1)),
    signature_proof      String COMMENT 'JSON: signature base, signature and key; empty without a key' CODEC(ZSTD(1)),
    origin_partition     Int32 COMMENT 'the record it comes from: partition and offset in the log' CODEC(ZSTD(1)),
    origin_offset        Int64 CODEC(Delta, ZSTD(1)),
    version              UInt64 COMMENT 'as in events',
    is_deleted           UInt8,
    INDEX by_version version TYPE minmax GRANULARITY 1,
    INDEX by_session session TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_event_id event_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY home
PRIMARY KEY (organization, at)
ORDER BY (organization, at, identity)
-- A page of events reads a hundred reports, each in another granule.
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, allow_experimental_replacing_merge_with_cleanup = 0,
    index_granularity = 1024
