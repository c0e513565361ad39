-- The highest epoch is the active writer. A slot is the query_id of all its statements. Epoch 0 has the slot for takeovers.
CREATE TABLE writers (epoch UInt64, writer String, slot String, at DateTime64(3, 'UTC'))
ENGINE = MergeTree ORDER BY epoch SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
