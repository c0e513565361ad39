-- Hours since 1970 in which a drain had a line of one of its hosts.
SELECT DISTINCT extract(epoch FROM hour)::bigint / 3600
FROM drain_hours
WHERE organization_id = $1
  AND lines > coalesce((dropped ->> 'other_host')::bigint, 0)
  AND hour >= coalesce($2, '-infinity'::timestamptz)
  AND hour < coalesce($3, 'infinity'::timestamptz)
  AND (drain_id IS NULL OR drain_id = ANY($4))
