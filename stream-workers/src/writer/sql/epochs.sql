SELECT epoch, writer, slot, shard FROM writers ORDER BY epoch
FORMAT RowBinary
