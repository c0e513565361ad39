-- Hours since 1970 in which a drain had a line of one of its hosts, and these hosts; null or empty means all hosts.
SELECT DISTINCT extract(epoch FROM h.hour)::bigint / 3600, d.hosts
FROM drain_hours h LEFT JOIN drains d ON d.id = h.drain_id
WHERE h.organization_id = $1
  AND h.lines > coalesce((h.dropped ->> 'other_host')::bigint, 0)
  AND h.hour >= $2
  AND h.hour < $3
