-- Claims an epoch. Fails unless the largest epoch is still the one that the claimant has read. Claims run under the query id of
-- epoch 0, so no two are evaluated at once.
INSERT INTO writers
SELECT {epoch:UInt64}, {writer:String}, {topic:String}, {shard:String}, {slot:String}, now64(3, 'UTC')
WHERE throwIf((SELECT max(epoch) FROM writers) != {expected:UInt64}, 'fenced') = 0
