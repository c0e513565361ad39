SELECT epoch, writer, slot FROM writers ORDER BY epoch
FORMAT RowBinary
