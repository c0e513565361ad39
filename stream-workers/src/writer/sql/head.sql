-- What a standby watches: both change while somebody is active or takes over.
SELECT
    ifNull((SELECT max(epoch) FROM writers), 0),
    ifNull((SELECT max(beat) FROM progress WHERE topic = {topic:String}), 0)
FORMAT RowBinary
