-- Inserts new hosts, each with its parents.
INSERT INTO sites
(
    above, site
)
SELECT * FROM input('
    `above` String, `site` String
')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
FORMAT RowBinary
