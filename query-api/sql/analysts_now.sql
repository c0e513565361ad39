-- ClickHouse's time in milliseconds since 1970, by which permissions of analyst accounts start and end.
SELECT toUnixTimestamp64Milli(now64(3))
