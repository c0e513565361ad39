INSERT INTO progress SELECT $epoch, $seq, 'events', number, $next_offset, now64(3, 'UTC') FROM numbers(4)
WHERE throwIf((SELECT max(epoch) FROM writers) != $epoch, 'fenced') = 0
