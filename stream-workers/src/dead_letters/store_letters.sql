-- Stores the letters on the topic, and deletes those that have expired. Another worker may have read the topic later than this one, so
-- letters newer than $8 are kept.
WITH letters AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[], $5::uuid[], $6::text[], $7::text[])
        AS letter (origin, reason, rejected_at, bytes, organization_id, request_id, restored_as)),
expired AS (
    DELETE FROM dead_letters WHERE rejected_at < $8 AND origin NOT IN (SELECT origin FROM letters))
INSERT INTO dead_letters AS known (id, origin, reason, rejected_at, bytes, organization_id, request_id, restored_as)
SELECT gen_random_uuid(), * FROM letters
ON CONFLICT (origin) DO UPDATE SET restored_as = excluded.restored_as
WHERE known.restored_as IS NULL AND excluded.restored_as IS NOT NULL
