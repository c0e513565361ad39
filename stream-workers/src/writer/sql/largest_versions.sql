-- The largest version of any row. After a restore from a backup, `writers` may be behind.
SELECT greatest(
    ifNull((SELECT max(version) FROM events), 0),
    ifNull((SELECT max(version) FROM reports), 0),
    ifNull((SELECT max(beat) FROM progress), 0),
    ifNull((SELECT max(version) FROM replays), 0))
FORMAT RowBinary
