-- A page of an organization's own list: how many reports the list has, and the places of those on the page.
-- Always returns one row. A report has its own time, so the window is a range of the primary key. The rows of an issuer are
-- what other organizations did with its click tokens.
WITH listed AS (
    SELECT at, identity
    FROM reports FINAL
    WHERE organization = {organization:UUID}
        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
        AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        -- self, other, or empty for both.
        AND ({reported_by:String} = '' OR is_issuers = ({reported_by:String} = 'other'))
)
SELECT
    assumeNotNull((SELECT count() FROM listed)) AS total,
    groupArray((toUnixTimestamp64Milli(at), identity)) AS places
FROM (
    SELECT at, identity
    FROM listed
    -- What follows the last report of the previous page; on the first page everything.
    -- Numbers, because ClickHouse sends a time in such a condition to other shards as text that they may read as another time.
    WHERE toUnixTimestamp64Milli(at) <= {after_ms:Int64}
        AND (toUnixTimestamp64Milli(at) < {after_ms:Int64} OR identity > {after_key:UInt128})
    ORDER BY at DESC, identity
    LIMIT {limit:UInt64} OFFSET {offset:UInt64}
)
