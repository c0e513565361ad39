-- Drains that accept all hosts, one of the domains, a subdomain or a parent of one, whether one of them still exists, and the
-- organizations whose servers' reports cover hours: the owner and its current partners.
SELECT
    coalesce(array_agg(id), '{}') AS drains,
    coalesce(bool_or(deleted_at IS NULL), false) AS has_drain,
    $1::uuid || array(SELECT grantee_org_id FROM delegations WHERE grantor_org_id = $1 AND revoked_at IS NULL) AS observers
FROM drains
WHERE organization_id = $1
  AND (hosts = '{}' OR EXISTS (
      SELECT FROM unnest(hosts) AS host CROSS JOIN unnest($2::text[]) AS domain
      WHERE host = domain OR right(host, length(domain) + 1) = '.' || domain OR right(domain, length(host) + 1) = '.' || host))
