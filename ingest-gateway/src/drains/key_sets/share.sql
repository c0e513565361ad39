-- Stores a key set, unless a later copy is stored. If there are too many, replaces the oldest one of the organization with the most.
WITH excess AS (
    DELETE FROM agent_key_sets WHERE url = (
        SELECT url FROM agent_key_sets
        WHERE organization_id = (SELECT organization_id FROM agent_key_sets GROUP BY organization_id ORDER BY count(*) DESC LIMIT 1)
          AND (SELECT count(*) FROM agent_key_sets) >= $5
          AND NOT EXISTS (SELECT FROM agent_key_sets WHERE url = $1)
        ORDER BY fetched_at LIMIT 1
    )
)
INSERT INTO agent_key_sets AS known (url, document, fetched_at, organization_id) VALUES ($1, $2, $3, $4)
ON CONFLICT (url) DO UPDATE SET document = excluded.document, fetched_at = excluded.fetched_at
WHERE known.fetched_at < excluded.fetched_at
