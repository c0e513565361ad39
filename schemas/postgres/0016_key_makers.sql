-- Who made a key, so that whoever is removed leaves none behind: a person (as a member or as an operator), another key, or
-- whoever works at the machine itself; named as the audit trail names them. Written by identity-api.
ALTER TABLE api_keys
    ADD COLUMN created_by_kind text NOT NULL DEFAULT 'system' CHECK (created_by_kind IN ('key', 'user', 'operator', 'system')),
    ADD COLUMN created_by      uuid,
    ADD CONSTRAINT api_keys_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system'));
UPDATE api_keys SET created_by_kind = actor_kind, created_by = actor_id
    FROM audit_log WHERE object_kind = 'api_key' AND object_id = api_keys.id AND action = 'api_key.created';
CREATE INDEX api_keys_by_maker ON api_keys (created_by) WHERE created_by IS NOT NULL;

-- Keys as lists show them; an operator is nobody's to name.
CREATE OR REPLACE VIEW api_keys_shown AS
    SELECT k.id, k.organization_id, k.name, k.prefix, k.scopes, k.created_at,
           greatest(k.last_used_at, i.last_used_at, r.last_used_at) AS last_used_at, k.revoked_at,
           k.created_by_kind, k.created_by,
           CASE k.created_by_kind
               WHEN 'user' THEN (SELECT u.email FROM users u WHERE u.id = k.created_by)
               WHEN 'key' THEN (SELECT m.name FROM api_keys m WHERE m.id = k.created_by)
           END AS created_by_name
    FROM api_keys k LEFT JOIN key_uses_ingest i ON i.key_id = k.id LEFT JOIN key_uses_reads r ON r.key_id = k.id;
