-- Deletes a site's versions that were last seen before $2, and the oldest versions of its organization above $3 bytes.
WITH sites AS (
    SELECT DISTINCT every.site FROM domains AS own JOIN domains AS every USING (organization_id)
    WHERE own.site = $1 AND own.verified_at IS NOT NULL AND own.released_at IS NULL
      AND every.verified_at IS NOT NULL AND every.released_at IS NULL
), versions AS (
    SELECT site, first_seen, sum(octet_length(body) + 1024) OVER (ORDER BY last_seen DESC, first_seen DESC, site) AS bytes
    FROM robots_files WHERE site IN (SELECT site FROM sites)
)
DELETE FROM robots_files AS files
WHERE (site = $1 AND last_seen < $2)
   OR (site, first_seen) IN (SELECT versions.site, versions.first_seen FROM versions WHERE bytes > $3)
