-- Inserts rows of a block. The data follows the statement in one body, which the server reads before it starts the statement.
INSERT INTO reports
(
    organization, at, identity, home, is_issuers, group_key, received, site, type, source_role, role, drain, platform,
    session, link, link_site, agent, url, content_id, content_telemetry_id, event_id, turn_id, output_id, data, extra, bot,
    operator, purpose, verified, status, bytes, cache_status, asn, country, media_type, bots_version, signature,
    signature_reason, signed_by, signature_proof, origin_partition, origin_offset, version, is_deleted
)
SELECT * FROM input('
    `organization` UUID, `at` DateTime64(3, \'UTC\'), `identity` UInt128, `home` UInt32, `is_issuers` UInt8, `group_key`
    UInt128, `received` UInt64, `site` LowCardinality(String), `type` LowCardinality(String), `source_role` UInt8, `role`
    UInt8, `drain` UUID, `platform` UUID, `session` UUID, `link` Enum8(\'\' = 0, \'taken\' = 1, \'same\' = 2, \'other\' =
    3), `link_site` String, `agent` LowCardinality(String), `url` String, `content_id` String, `content_telemetry_id`
    String, `event_id` String, `turn_id` String, `output_id` String, `data` String, `extra` String, `bot`
    LowCardinality(String), `operator` LowCardinality(String), `purpose` LowCardinality(String), `verified`
    Enum8(\'unknown\' = 0, \'no\' = 1, \'yes\' = 2), `status` UInt16, `bytes` UInt64, `cache_status` LowCardinality(String),
    `asn` UInt32, `country` LowCardinality(String), `media_type` LowCardinality(String), `bots_version`
    LowCardinality(String), `signature` Enum8(\'none\' = 0, \'invalid\' = 1, \'valid\' = 2), `signature_reason`
    LowCardinality(String), `signed_by` String, `signature_proof` String, `origin_partition` Int32, `origin_offset` Int64, `version` UInt64, `is_deleted` UInt8
')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
FORMAT RowBinary
