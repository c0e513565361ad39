-- Hours since 1970 in which a drain with only one host had a line of it, with the host. A drain that lists no hosts accepts
-- those of its owner; $4 is the owner's only host, if it has one.
SELECT DISTINCT coalesce(drains.hosts[1], $4) AS host, extract(epoch FROM hour)::bigint / 3600 AS hour
FROM drain_hours
JOIN drains ON drains.id = drain_hours.drain_id
WHERE drain_hours.organization_id = $1
  AND lines > coalesce((dropped ->> 'other_host')::bigint, 0)
  AND hour >= coalesce($2, '-infinity'::timestamptz)
  AND hour < coalesce($3, 'infinity'::timestamptz)
  AND cardinality(drains.hosts) <= 1
  AND coalesce(drains.hosts[1], $4) IS NOT NULL
