-- Hosts that occur for the first time, each also under the hosts above it.
INSERT INTO sites
(
    above, site
)
SELECT * FROM input('
    `above` String, `site` String
')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
FORMAT RowBinary
