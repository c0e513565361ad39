-- One row per log line of a bot whose status means that no content was returned. Such a line is a request, not an event, so
-- `events` and `reports` don't contain it. Status 304 is a revalidation, every other one a failed fetch. Only the active writer
-- inserts rows.
--
-- The partition is the month in which a copy was accepted, so clients can't choose it, and retention drops months as in `events`.
-- Copies that were accepted in different months are in different partitions, but have the same sorting key, because a line's
-- identity determines its host and time. So read it with FINAL and do_not_merge_across_partitions_select_final = 0, unlike
-- `events`: a line counts once, as the copy that was accepted first. A row depends only on its record, so inserting a block again
-- changes nothing.
CREATE TABLE IF NOT EXISTS failed_fetches
(
    site         String COMMENT 'reversed canonical host, com.example.blog; empty if it is not a host that can be owned',
    at           DateTime64(3, 'UTC') COMMENT 'time of the request' CODEC(Delta, ZSTD(1)),
    identity     UInt128 COMMENT 'copies of one line have the same',
    home         UInt32 COMMENT 'partition: the month in which this copy was accepted',
    path         String COMMENT 'path of the URL, without its query' CODEC(ZSTD(1)),
    bot          LowCardinality(String),
    operator     LowCardinality(String) COMMENT 'the company that operates the bot',
    purpose      LowCardinality(String) COMMENT 'training, search or user',
    verified     Enum8('unknown' = 0, 'no' = 1, 'yes' = 2) COMMENT 'whether the request came from an address that the operator publishes',
    status       UInt16 COMMENT 'HTTP status: 100 to 199 or 300 to 599; 0 if the request was not answered',
    signature    Enum8('none' = 0, 'invalid' = 1, 'valid' = 2) COMMENT 'of the agent, as in reports',
    signed_by    LowCardinality(String) COMMENT 'as in reports',
    outcome      String
        ALIAS if(status = 304, 'revalidation', 'failed')
        COMMENT 'the measure, as in events',
    organization UUID COMMENT 'whose log it is' CODEC(ZSTD(1)),
    drain        UUID COMMENT 'the drain that delivered this copy; all zero if it was sent with another key' CODEC(ZSTD(1)),
    precedence   UInt64 COMMENT '2^64 - 1 less received as in reports: of copies the one with the largest stays' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(precedence)
PARTITION BY home
PRIMARY KEY (site, at)
ORDER BY (site, at, identity)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
