-- Rows of a page of events lie one here and one there: of each, every column is decompressed by the block, which is 64 KiB by default.
-- Smaller blocks cost 2 bytes a row. Parts of before keep theirs until they are merged.
ALTER TABLE observations
    MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536
