-- The clock by which rights of analyst accounts begin and end, in milliseconds since 1970.
SELECT toUnixTimestamp64Milli(now64(3))
