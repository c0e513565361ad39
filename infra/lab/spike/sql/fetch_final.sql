SELECT * FROM events FINAL PREWHERE key IN (SELECT key FROM keys) AND (site, at, key) IN keys
FORMAT RowBinary
