-- Inserts rows of a block. The data follows the statement in one body, which the server reads before it starts the statement.
INSERT INTO failed_fetches
(
    site, at, identity, home, path, bot, operator, purpose, verified, status, signature, signed_by, organization, drain, precedence
)
SELECT * FROM input('
    `site` String, `at` DateTime64(3, \'UTC\'), `identity` UInt128, `home` UInt32, `path` String, `bot`
    LowCardinality(String), `operator` LowCardinality(String), `purpose` LowCardinality(String), `verified` Enum8(\'unknown\'
    = 0, \'no\' = 1, \'yes\' = 2), `status` UInt16, `signature` Enum8(\'none\' = 0,
    \'invalid\' = 1, \'valid\' = 2), `signed_by` LowCardinality(String), `organization` UUID, `drain` UUID, `precedence` UInt64
')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
FORMAT RowBinary
