-- Rows of `reports` from an interrupted block: those that are newer than the last complete block. Writers of other topics had other
-- records. Their epochs are excluded, instead of selecting those of this topic, because `writers` may lack some after a restore.
SELECT home, organization, at, identity, received, group_key, site, platform, origin_partition, origin_offset
FROM
(
    SELECT home, organization, at, identity, received, group_key, site, platform, origin_partition, origin_offset, is_deleted
    FROM reports
    WHERE version > {complete:UInt64}
        AND bitShiftRight(version, 40) NOT IN (SELECT epoch FROM writers WHERE topic != {topic:String})
        AND is_issuers = 0
    ORDER BY version DESC
    LIMIT 1 BY home, organization, at, identity
)
WHERE is_deleted = 0
FORMAT RowBinary
