-- Whether any report lies further than a day from the retrieval's place. All others are found by place: a window reads the rows placed
-- in it and a day around it. The server works it out, so that rows of compactions of any build have it.
ALTER TABLE retrieval_index
    ADD COLUMN IF NOT EXISTS moved UInt8 MATERIALIZED arrayExists(one -> abs(toUnixTimestamp64Milli(one) - toUnixTimestamp64Milli(placed_at)) > 86400000, arrayPushFront(arrayMap(report -> tupleElement(report, 'at'), others), at)) COMMENT 'base: 1 where a report lies further than a day from placed_at; delta: 0'
