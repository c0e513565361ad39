-- Counts the rows that a failed block has left in `events`: 0, unless the insert failed after some of its months were visible.
SELECT count() FROM events
WHERE version >= {since:UInt64}
FORMAT RowBinary
