-- Rows of `reports` that an interrupted block wrote: those that are newer than the last complete block.
SELECT home, organization, at, identity, received, origin_partition, origin_offset
FROM
(
    SELECT home, organization, at, identity, received, origin_partition, origin_offset, is_deleted
    FROM reports
    WHERE version > {complete:UInt64} AND is_issuers = 0
    ORDER BY version DESC
    LIMIT 1 BY home, organization, at, identity
)
WHERE is_deleted = 0
FORMAT RowBinary
