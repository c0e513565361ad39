-- Active parts of `events` in the month with the most parts.
SELECT max(parts) FROM
(
    SELECT count() AS parts FROM system.parts
    WHERE database = currentDatabase() AND table = 'events' AND active
    GROUP BY partition_id
)
FORMAT RowBinary
