-- Inserts rows of a block. The data follows the statement in one body, which the server reads before it starts the statement.
INSERT INTO events
(
    site, at, key, home, type, url, roles, role, is_claim, representative, organization, platform, agent, session,
    link_site, is_claimed, is_seen, bot, operator, purpose, verified, status, bytes, signature,
    `other_agents.role`, `other_agents.platform`, `other_agents.agent`, `other_agents.session`, `reports.organization`, `reports.platform`,
    `reports.role`, `reports.drain`, `reports.agent`, `reports.session`, `reports.at`, `reports.received`,
    `reports.identity`, `reports.home`, `reports.details`, version, is_deleted
)
SELECT * FROM input('
    `site` String, `at` DateTime64(3, \'UTC\'), `key` UInt128, `home` UInt32, `type` LowCardinality(String), `url` String,
    `roles` UInt8, `role` UInt8, `is_claim` UInt8, `representative` UInt8, `organization` UUID, `platform` UUID, `agent`
    LowCardinality(String), `session` UInt64, `link_site` String, `is_claimed` UInt8, `is_seen` UInt8, `bot` LowCardinality(String),
    `operator` LowCardinality(String), `purpose` LowCardinality(String), `verified` Enum8(\'unknown\' = 0, \'no\' = 1,
    \'yes\' = 2), `status` UInt16, `bytes` UInt64, `signature` Enum8(\'none\' = 0, \'invalid\' = 1, \'valid\' = 2),
    `other_agents.role` Array(UInt8), `other_agents.platform` Array(UUID),
    `other_agents.agent` Array(LowCardinality(String)), `other_agents.session` Array(UInt64), `reports.organization` Array(UUID), `reports.platform` Array(UUID),
    `reports.role` Array(UInt8), `reports.drain` Array(UUID), `reports.agent` Array(LowCardinality(String)),
    `reports.session` Array(UInt64), `reports.at` Array(DateTime64(3, \'UTC\')), `reports.received` Array(UInt64),
    `reports.identity` Array(UInt128), `reports.home` Array(UInt32), `reports.details` Array(String), `version` UInt64,
    `is_deleted` UInt8
')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
FORMAT RowBinary
