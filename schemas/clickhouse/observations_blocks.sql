-- Rows of a page and of a session lie one here and one there: of each, every column is decompressed by the block. In blocks of
-- 64 KiB, the default, that was most of what a page cost; smaller ones cost 2 bytes a row. Parts of before keep theirs until merged.
ALTER TABLE observations
    MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536
