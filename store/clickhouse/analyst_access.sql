-- Hosts that determine what an analyst account can see: one row per account, so that a change is atomic. `telemetry query-api
-- analysts` inserts a row after each check (docs/operating/analytics.md#accounts); the newest row counts.
CREATE TABLE IF NOT EXISTS analyst_access
(
    login           String COMMENT 'user of the account',
    hosts           Array(String) COMMENT 'reversed canonical hosts; of those above a site, or equal to it, the longest decides',
    visible_from_ms Array(Int64) COMMENT 'of each host: first visible millisecond since 1970; the largest number if events belong to others',
    checked         DateTime64(3, 'UTC') COMMENT 'when the look-up began, by the clock of the server; the largest is the newest',
    until           DateTime64(3, 'UTC') COMMENT 'when statements of the account start to fail, by the same clock'
)
ENGINE = ReplacingMergeTree(checked)
ORDER BY login
