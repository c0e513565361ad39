-- API keys. Only the SHA-256 of a key is stored; `prefix` is the part that lists show. A drain's key has no scopes, so only its
-- drain accepts it. `created_by` is the creator, as in the audit trail: a person (as a member or as an operator) or another key;
-- null for the command line. Removing a person revokes the keys they created. Written by identity-api.
CREATE TABLE api_keys (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id uuid NOT NULL REFERENCES organizations,
    name            text NOT NULL,
    prefix          text NOT NULL,
    key_hash        bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    scopes          text[] NOT NULL,
    strict          boolean NOT NULL DEFAULT false, -- check every report against the public 1.0 rules, whatever the gateway's setting
    drain_id        uuid REFERENCES drains,         -- set for the key of a drain
    created_by_kind text NOT NULL DEFAULT 'system' CHECK (created_by_kind IN ('key', 'user', 'operator', 'system')),
    created_by      uuid,
    created_at      timestamptz NOT NULL DEFAULT now(),
    last_used_at    timestamptz,                    -- at identity-api; see key_uses_ingest
    expires_at      timestamptz,                    -- set when the key has been replaced
    revoked_at      timestamptz,
    CONSTRAINT api_keys_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system'))
);
CREATE INDEX api_keys_by_organization ON api_keys (organization_id);
CREATE INDEX api_keys_by_maker ON api_keys (created_by) WHERE created_by IS NOT NULL;
CREATE INDEX api_keys_by_drain ON api_keys (drain_id) WHERE drain_id IS NOT NULL;

-- When a key was last used to report, to the minute. Each crate that accepts keys has its own table, because a table has
-- one writing crate; identity-api uses `api_keys.last_used_at` and shows the latest of the three. Written by ingest-gateway.
CREATE TABLE key_uses_ingest (
    key_id       uuid PRIMARY KEY REFERENCES api_keys,
    last_used_at timestamptz NOT NULL
);

-- When a key was last used to read. Written by query-api.
CREATE TABLE key_uses_reads (
    key_id       uuid PRIMARY KEY REFERENCES api_keys,
    last_used_at timestamptz NOT NULL
);

-- Keys as lists show them. An operator who created a key is not named.
CREATE VIEW api_keys_shown AS
    SELECT k.id, k.organization_id, k.name, k.prefix, k.scopes, k.created_at,
           greatest(k.last_used_at, i.last_used_at, r.last_used_at) AS last_used_at, k.revoked_at,
           k.created_by_kind, k.created_by,
           CASE k.created_by_kind
               WHEN 'user' THEN (SELECT u.email FROM users u WHERE u.id = k.created_by)
               WHEN 'key' THEN (SELECT m.name FROM api_keys m WHERE m.id = k.created_by)
           END AS created_by_name,
           k.drain_id, k.expires_at
    FROM api_keys k LEFT JOIN key_uses_ingest i ON i.key_id = k.id LEFT JOIN key_uses_reads r ON r.key_id = k.id;
