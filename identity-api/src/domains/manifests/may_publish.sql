SELECT EXISTS (SELECT FROM manifest_hosts WHERE organization_id = $1 AND site = ANY($2))
    OR (SELECT organization_id = $1 FROM domains
        WHERE site = ANY($2) AND verified_at IS NOT NULL AND released_at IS NULL
        ORDER BY length(site) DESC LIMIT 1) IS TRUE
