-- The next replay to process.
SELECT topic, id, requested, organizations, rate, partitions, next, until, records, events, unreadable, quarantined, changed_events,
    changed_reports, starts, status, message
FROM replays FINAL
WHERE topic = {topic:String} AND status IN ('waiting', 'running')
ORDER BY requested, id
LIMIT 1
FORMAT RowBinary
