-- The place of each key. Nobody else writes while it runs.
SELECT key, home, at FROM events FINAL
FORMAT RowBinary
