-- Read by standbys: both values change while a writer is active or takes over, whatever topic it reads.
SELECT
    ifNull((SELECT max(epoch) FROM writers), 0),
    ifNull((SELECT max(beat) FROM progress), 0)
FORMAT RowBinary
