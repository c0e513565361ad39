-- Drains that accept all hosts, one of the domains, a subdomain or a parent of one. True if the drain still exists.
SELECT id, deleted_at IS NULL
FROM drains
WHERE organization_id = $1
  AND (hosts = '{}' OR EXISTS (
      SELECT FROM unnest(hosts) AS host CROSS JOIN unnest($2::text[]) AS domain
      WHERE host = domain OR right(host, length(domain) + 1) = '.' || domain OR right(domain, length(host) + 1) = '.' || host))
