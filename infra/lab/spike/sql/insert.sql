INSERT INTO $table SELECT * FROM input('$structure')
WHERE throwIf((SELECT max(epoch) FROM writers) != $epoch, 'fenced') = 0
FORMAT RowBinary
