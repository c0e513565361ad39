-- What the reads of content owners count from: a narrow table beside `observations`, which keeps everything. Two tiers, each in a
-- partition of its own (docs/operating/reads.md):
-- delta: one row per report, put there by the view `retrieval_index_delta`, so that every writer of `observations` fills it;
-- base: one row per retrieval, which is a site and a key, written by compactions. A newer row of a retrieval replaces the older one,
-- because `placed_at` and so its place never change. The row of the empty site says which compaction was the last.
CREATE TABLE IF NOT EXISTS retrieval_index
(
    tier           Enum8('base' = 0, 'delta' = 1) COMMENT 'delta: one report, as the view inserted it; base: one retrieval, as a compaction merged it',
    site           LowCardinality(String) COMMENT 'reversed canonical host, as in observations; empty: the row that says which compaction was the last',
    placed_at      DateTime64(3, 'UTC') COMMENT 'where the row lies: the at of the first report known when the retrieval was first compacted; never changes' CODEC(Delta, ZSTD(1)),
    key_low        UInt64 COMMENT 'lower half of event_key' CODEC(NONE),
    key_high       UInt64 COMMENT 'upper half of event_key' CODEC(NONE),
    delta_org      UUID COMMENT 'delta: the reporting organisation, part of a report''s identity; base: all zero',
    delta_observer UInt8 COMMENT 'delta: observer, part of a report''s identity; base: 0',
    revision       UInt64 COMMENT 'base: the number of the compaction that wrote the row; delta: version of the report; the largest stays' CODEC(Delta, ZSTD(1)),
    compactor      UInt64 COMMENT 'base: the attempt that wrote the row; delta: 0',
    needs_merge    UInt8 COMMENT 'base: 1 where a read must merge the retrieval itself, its key being known on several sites or one of its reports being a turn',
    roles          UInt8 COMMENT 'base: bit set of the roles of all reports; delta: 0',
    rank           UInt8 COMMENT 'precedence of the report that represents the retrieval, the smallest first',
    received       UInt64 COMMENT 'when the gateway accepted that report and in which place, the older the smaller: microseconds * 4096 + place' CODEC(Delta, ZSTD(1)),
    org            UInt128 COMMENT 'the organisation that reported it' CODEC(ZSTD(1)),
    observer       UInt8 COMMENT 'observer of that report, as in observations',
    role           UInt8 COMMENT 'role that it counts as: 0 none, 1 agent, 2 edge, 3 origin, 4 index',
    at             DateTime64(3, 'UTC') COMMENT 'when it happened, by that observer''s clock' CODEC(Delta, ZSTD(1)),
    event_type     LowCardinality(String),
    url            String COMMENT 'content_url of that report' CODEC(ZSTD(1)),
    session        UInt64 COMMENT 'digest of platform and session, never 0; 0: it has no session' CODEC(ZSTD(1)),
    platform       UUID COMMENT 'whose session it is' CODEC(ZSTD(1)),
    agent          LowCardinality(String) COMMENT 'as the reporter names its agent; empty: none',
    link_site      LowCardinality(String) COMMENT 'empty: session, platform and agent may be told; else only to who may see this host; -: to nobody',
    others         Array(Tuple(rank UInt8, received UInt64, org UInt128, observer UInt8, role UInt8, at DateTime64(3, 'UTC'),
                               event_type LowCardinality(String), url String, session UInt64, platform UUID,
                               agent LowCardinality(String), link_site LowCardinality(String)))
                   COMMENT 'base: the other reports of the retrieval, by precedence, of each observer the oldest; delta: none',
    INDEX revision_range revision TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY tier
PRIMARY KEY (site, placed_at)
ORDER BY (site, placed_at, key_low, key_high, delta_org, delta_observer)
SETTINGS non_replicated_deduplication_window = 10000
