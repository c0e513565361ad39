-- Reads the place of each key. No other writer inserts while it runs.
SELECT key, home, at FROM events FINAL
FORMAT RowBinary
