-- A page of an organization's own list: the length of the list, and the places of the reports on the page. Always returns one
-- row. A report has its own time, so the period is a range of the primary key. An issuer's rows are reports of other
-- organizations with its click tokens.
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
    -- Reports after the cursor; all reports on the first page. Compares numbers: ClickHouse sends times in such a condition to
    -- other shards as text, which they may parse as another time.
    WHERE toUnixTimestamp64Milli(at) <= {after_ms:Int64}
        AND (toUnixTimestamp64Milli(at) < {after_ms:Int64} OR identity > {after_key:UInt128})
    ORDER BY at DESC, identity
    LIMIT {limit:UInt64} OFFSET {offset:UInt64}
)
