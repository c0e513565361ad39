-- The current rows of known keys. The tuple selects granules by the primary key; the key alone is cheap to compare for each row in
-- them, before any other column is read. Without FINAL, because LIMIT BY keeps the newest version of each row.
SELECT * FROM events PREWHERE key IN (SELECT key FROM keys) AND (site, at, key) IN keys
ORDER BY version DESC LIMIT 1 BY site, at, key
FORMAT RowBinary
