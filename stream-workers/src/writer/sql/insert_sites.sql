-- Hosts that occur for the first time.
INSERT INTO sites
(
    domain, site
)
SELECT * FROM input('
    `domain` String, `site` String
')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
FORMAT RowBinary
