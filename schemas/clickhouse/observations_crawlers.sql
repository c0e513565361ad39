-- Who fetched it and how it was answered, where an edge or an origin says so: by its drain, or by `data` of the event. Named columns,
-- because reads group by them. Neither an address nor a user agent is a column (docs/api/crawlers.md, "Columns").
ALTER TABLE observations
    ADD COLUMN IF NOT EXISTS bot LowCardinality(String) DEFAULT '' COMMENT 'the bot by the table of bots; other: the CDN says that it is one; empty: not known',
    ADD COLUMN IF NOT EXISTS operator LowCardinality(String) DEFAULT '' COMMENT 'whose bot it is',
    ADD COLUMN IF NOT EXISTS purpose LowCardinality(String) DEFAULT '' COMMENT 'training, search or user',
    ADD COLUMN IF NOT EXISTS verified Enum8('unknown' = 0, 'no' = 1, 'yes' = 2) DEFAULT 'unknown' COMMENT 'whether it asked from an address that its operator publishes',
    ADD COLUMN IF NOT EXISTS response_status UInt16 DEFAULT 0 COMMENT 'HTTP status of the answer; 0: not known',
    ADD COLUMN IF NOT EXISTS response_bytes UInt64 DEFAULT 0 COMMENT 'bytes of the answer' CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS cache_status LowCardinality(String) DEFAULT '' COMMENT 'in the words of who reports it',
    ADD COLUMN IF NOT EXISTS asn UInt32 DEFAULT 0 COMMENT 'autonomous system of the request; 0: not known' CODEC(ZSTD),
    ADD COLUMN IF NOT EXISTS country LowCardinality(String) DEFAULT '' COMMENT 'of the request',
    ADD COLUMN IF NOT EXISTS media_type LowCardinality(String) DEFAULT '' COMMENT 'of the answer',
    ADD COLUMN IF NOT EXISTS bots_version LowCardinality(String) DEFAULT '' COMMENT 'edition of the table of bots that was asked'
