SELECT beat, complete, partitions, next, since, records, events, rejected_records, rejected_events,
    suspect_partition, suspect_offset, suspect_deaths
FROM progress
WHERE topic = {topic:String}
ORDER BY beat DESC LIMIT 1
FORMAT RowBinary
