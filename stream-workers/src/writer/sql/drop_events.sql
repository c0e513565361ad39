ALTER TABLE events DROP PARTITION {home:UInt32}
SETTINGS max_partition_size_to_drop = 0
