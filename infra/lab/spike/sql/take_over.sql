INSERT INTO writers SELECT $epoch + 1, '$writer', '$slot', now64(3, 'UTC')
WHERE throwIf((SELECT max(epoch) FROM writers) != $epoch, 'fenced') = 0
