INSERT INTO progress
SELECT {topic:String}, {beat:UInt64}, {complete:UInt64}, {partitions:Array(Int32)}, {next:Array(Int64)}, {since:Array(Int64)},
    {records:Array(UInt64)}, {events:Array(UInt64)}, {rejected_records:Array(UInt64)}, {rejected_events:Array(UInt64)},
    {suspect_partition:Int32}, {suspect_offset:Int64}, {suspect_deaths:UInt32}, now64(3, 'UTC')
WHERE throwIf((SELECT max(epoch) FROM writers) != {epoch:UInt64}, 'fenced') = 0
