-- On each of several shards: requests whose events lie on more than one, written before any of their events is. A read leaves out what
-- the log's place in `log_through` has not come to, so that all shards show a request whole or not at all. A request that is on the log
-- more than once is whole where the log has come to any of its places. What has been there for longer than any read needs no row; a
-- request that still waits is written again, and one that is logged again is not where all shards have it.
CREATE TABLE IF NOT EXISTS requests_under_way
(
    partition  Int32 COMMENT 'of the log, where the request stands',
    place      Int64 COMMENT 'its offset in the partition',
    received   UInt64 COMMENT 'when the gateway accepted it, in microseconds',
    org        UUID COMMENT 'the reporting organisation',
    marked     DateTime('UTC') DEFAULT now() COMMENT 'when it was written here'
)
ENGINE = ReplacingMergeTree(marked)
ORDER BY (partition, place, received, org)
TTL marked + INTERVAL 15 MINUTE DELETE
SETTINGS merge_with_ttl_timeout = 60
