-- One live row per event, for the reads of content owners, analysts and dashboards. Only the active writer inserts rows
-- (docs/operating/writer.md), and it merges them first (store/src/merge.rs).
--
-- Read it with FINAL and do_not_merge_across_partitions_select_final = 1: all versions of a key are in one partition, its `home`.
-- Use only site, at and key in PREWHERE, because ClickHouse evaluates it before FINAL. Don't filter by `home`, and never run
-- OPTIMIZE … CLEANUP: a late copy of an old insert would restore a deleted row.
--
-- Columns without a prefix describe the report that represents the event (agent, edge, origin, index, no role; within a role the
-- first accepted), unless their comment differs. `other_agents` contains the other reports of agents and is nearly always empty, so
-- figures of sessions and agents needn't read arrays. `reports` contains all reports in order of acceptance, one per observer.
CREATE TABLE IF NOT EXISTS events
(
    site           String COMMENT 'reversed canonical host, com.example.blog; empty if it is not a host that can be owned',
    at             DateTime64(3, 'UTC') COMMENT 'time of the first accepted timely report, else of the first accepted report' CODEC(Delta, ZSTD(1)),
    key            UInt128 COMMENT 'the key that its reports share, or the identity of its only report',
    home           UInt32 COMMENT 'partition: the month in which the key was first written; never changes',
    type           LowCardinality(String) COMMENT 'event type',
    url            String COMMENT 'canonical URL; empty if none was reported' CODEC(ZSTD(1)),
    roles          UInt8 COMMENT 'of all reports: bit n is set if one counts for role n (0 none, 1 agent, 2 edge, 3 origin, 4 index)',
    role           UInt8 COMMENT 'the role it counts for: the reported one, or agent for types that only agents report',
    is_claim       UInt8 COMMENT '1 if an agent stands behind it: role agent, or no role and a session',
    representative UInt8 COMMENT 'its position in reports, from 1',
    organization   UUID COMMENT 'the reporting organization' CODEC(ZSTD(1)),
    platform       UUID COMMENT 'the organization whose session it is: the reporter, or the issuer of the click token' CODEC(ZSTD(1)),
    agent          LowCardinality(String) COMMENT 'as the reporter names its agent; empty if unnamed',
    session        UInt64 COMMENT 'digest of platform and session id; 0 if there is none' CODEC(ZSTD(1)),
    link_site      String COMMENT 'if empty, platform, agent and session may be shown; else only to readers who may see this host; - hides them from all' CODEC(ZSTD(1)),
    is_claimed     UInt8 COMMENT 'content_retrieved: 1 if an agent reports it, alone or with others; with outcome fetch, a claim',
    is_seen        UInt8 COMMENT 'content_retrieved: 1 if an edge or origin reports it whose organization claims nothing in this event',
    bot            LowCardinality(String) COMMENT 'this and the next five: the fetch by the owner''s reports, else by others'' (counting.md, rule 5)',
    operator       LowCardinality(String) COMMENT 'the company that operates the bot',
    purpose        LowCardinality(String) COMMENT 'training, search or user',
    verified       Enum8('unknown' = 0, 'no' = 1, 'yes' = 2) COMMENT 'whether the request came from an address that the operator publishes',
    status         UInt16 COMMENT 'HTTP status; 0 if unknown',
    bytes          UInt64 COMMENT 'bytes of the response; 0 if unknown' CODEC(ZSTD(1)),
    signature      Enum8('none' = 0, 'invalid' = 1, 'valid' = 2) COMMENT 'of all reports: valid if one is, else invalid if one is',
    outcome        String
        ALIAS multiIf(type != 'content_retrieved', '', status = 304, 'revalidation', status = 0 OR status BETWEEN 200 AND 299, 'fetch', 'failed')
        COMMENT 'of content_retrieved, the measure: fetch, revalidation or failed (docs/api/counting.md#measures); empty for other types',
    other_agents Nested
    (
        role     UInt8,
        platform UUID,
        agent    LowCardinality(String),
        session  UInt64
    ),
    reports Nested
    (
        organization UUID,
        platform     UUID,
        role         UInt8,
        drain        UUID,
        agent        LowCardinality(String),
        session      UInt64,
        at           DateTime64(3, 'UTC'),
        received     UInt64,
        identity     UInt128,
        home         UInt32,
        -- Only for the writer: the parts of the report that other columns don't contain.
        details      String
    ),
    version        UInt64 COMMENT 'epoch of the writer in the upper 24 bits, number of its block in the lower 40; the largest stays',
    is_deleted     UInt8 COMMENT '1 if the event is no longer at this place'
)
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY home
PRIMARY KEY (site, at)
ORDER BY (site, at, key)
-- The writer fetches rows of scattered keys, each in another granule and another compressed block of every column. Small granules
-- and blocks cost a third as much, and add 4 bytes per row on disk.
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, allow_experimental_replacing_merge_with_cleanup = 0,
    index_granularity = 256, min_compress_block_size = 4096, max_compress_block_size = 16384
