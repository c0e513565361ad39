-- Drains that name no host, or one of the domains, or a host beneath or above one of them; true if they still take lines.
SELECT id, deleted_at IS NULL
FROM drains
WHERE organization_id = $1
  AND (hosts = '{}' OR EXISTS (
      SELECT FROM unnest(hosts) AS host CROSS JOIN unnest($2::text[]) AS domain
      WHERE host = domain OR right(host, length(domain) + 1) = '.' || domain OR right(domain, length(host) + 1) = '.' || host))
