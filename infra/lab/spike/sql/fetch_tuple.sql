SELECT * FROM events PREWHERE (site, at, key) IN keys
ORDER BY version DESC LIMIT 1 BY site, at, key
FORMAT RowBinary
