SELECT beat, complete, partitions, next, suspect_partition, suspect_offset, suspect_deaths
FROM progress
WHERE topic = {topic:String}
ORDER BY beat DESC LIMIT 1
FORMAT RowBinary
