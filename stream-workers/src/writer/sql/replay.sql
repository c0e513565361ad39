SELECT topic, id, requested, organizations, rate, partitions, next, until, records, events, unreadable, quarantined, changed_events,
    changed_reports, starts, status, message
FROM replays FINAL
WHERE topic = {topic:String} AND id = {id:UUID}
FORMAT RowBinary
