-- Rows that a failed block has left in `events`: none, unless the insert has failed after some of its months were visible.
SELECT count() FROM events
WHERE version >= {since:UInt64}
FORMAT RowBinary
