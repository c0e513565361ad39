-- Creates epoch 0, whose slot is the query id of claims. Runs under a fixed query id, so that only one copy is evaluated at a time.
INSERT INTO writers
SELECT 0, '', '', '', {slot:String}, now64(3, 'UTC')
WHERE (SELECT count() FROM writers) = 0
