-- Counts keys with more than one live row, of which there must be 0. Keys are compared in several runs, to limit the memory.
SELECT count() FROM
(
    SELECT key FROM events FINAL
    WHERE toUInt64(key) % {runs:UInt64} = {run:UInt64}
    GROUP BY key
    HAVING count() > 1
)
FORMAT RowBinary
