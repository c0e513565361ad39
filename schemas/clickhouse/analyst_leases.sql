-- Until when the views of an analyst's account may answer, and by which hosts (docs/adr/0013-analysts-on-clickhouse.md). Written by
-- `telemetry query-api analysts` each time it has found views and hosts in step. A row that repeats is the later one; readers take the
-- latest of all of a number, so that nothing depends on merges.
CREATE TABLE IF NOT EXISTS analyst_leases
(
    login      String COMMENT 'the account',
    generation UInt64 COMMENT 'number of the hosts that the account may see; row policies in force let it see no other',
    until      DateTime64(3, 'UTC') COMMENT 'when the views stop to answer, by the clock of the server'
)
ENGINE = ReplacingMergeTree(until)
ORDER BY (login, generation)
TTL toDateTime(until) + INTERVAL 1 DAY DELETE
