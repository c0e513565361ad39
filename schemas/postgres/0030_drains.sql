-- A log stream of a CDN or a server, and the key that may feed it and nothing else (docs/api/identity.md#drains).

-- `hosts` are canonical hosts; none means every host that the organisation may report for. What the owner says of the stream is
-- kept beside it: `sampling` is the share of lines that the provider sends. The secret that a provider signs with is sealed and
-- bound to the row. A deleted drain stays, for what was counted under it. Written by identity-api.
CREATE TABLE drains (
    id                uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id   uuid NOT NULL REFERENCES organizations,
    name              text NOT NULL,
    provider          text NOT NULL
        CHECK (provider IN ('cloudflare', 'fastly', 'firehose', 'akamai', 'vercel', 'ndjson', 'combined')),
    hosts             text[] NOT NULL DEFAULT '{}',
    role              text NOT NULL DEFAULT 'edge' CHECK (role IN ('edge', 'origin')),
    sampling          double precision NOT NULL DEFAULT 1 CHECK (sampling > 0 AND sampling <= 1),
    secret_sealed     bytea,
    fastly_service_id text,
    created_by_kind   text NOT NULL DEFAULT 'system' CHECK (created_by_kind IN ('key', 'user', 'operator', 'system')),
    created_by        uuid,
    created_at        timestamptz NOT NULL DEFAULT now(),
    deleted_at        timestamptz,
    CONSTRAINT drains_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system'))
);
CREATE INDEX drains_by_organization ON drains (organization_id, created_at) WHERE deleted_at IS NULL;
-- What Fastly asks for is the list of all services whose streams are taken.
CREATE INDEX drains_of_fastly ON drains (fastly_service_id) WHERE deleted_at IS NULL AND fastly_service_id IS NOT NULL;

-- A key of a drain holds no scope: builds that do not know drains refuse it everywhere. `expires_at` is the end of a key that
-- another one has replaced.
ALTER TABLE api_keys
    ADD COLUMN drain_id   uuid REFERENCES drains,
    ADD COLUMN expires_at timestamptz;
CREATE INDEX api_keys_by_drain ON api_keys (drain_id) WHERE drain_id IS NOT NULL;

CREATE OR REPLACE VIEW api_keys_shown AS
    SELECT k.id, k.organization_id, k.name, k.prefix, k.scopes, k.created_at,
           greatest(k.last_used_at, i.last_used_at, r.last_used_at) AS last_used_at, k.revoked_at,
           k.created_by_kind, k.created_by,
           CASE k.created_by_kind
               WHEN 'user' THEN (SELECT u.email FROM users u WHERE u.id = k.created_by)
               WHEN 'key' THEN (SELECT m.name FROM api_keys m WHERE m.id = k.created_by)
           END AS created_by_name,
           k.drain_id, k.expires_at
    FROM api_keys k LEFT JOIN key_uses_ingest i ON i.key_id = k.id LEFT JOIN key_uses_reads r ON r.key_id = k.id;
