-- Keys with more than one live row: there must be none. Keys are compared in as many runs as there are remainders, so that memory is
-- bounded.
SELECT count() FROM
(
    SELECT key FROM events FINAL
    WHERE toUInt64(key) % {runs:UInt64} = {run:UInt64}
    GROUP BY key
    HAVING count() > 1
)
FORMAT RowBinary
