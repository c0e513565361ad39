-- How a domain is verified, who has owned what, and when a key was last used.

-- What its owner publishes to prove that the domain is theirs: in DNS, in the manifest or on the root page, so it is
-- no secret. A registration has its own: that of another organisation, or of an earlier registration, proves nothing.
ALTER TABLE domains
    ADD COLUMN verification_token text NOT NULL
        DEFAULT replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
CREATE INDEX domains_by_organization ON domains (organization_id, created_at) WHERE released_at IS NULL;
-- Who owned a host, or one beneath it, before: its history is not the next owner's.
CREATE INDEX domains_formerly_owned ON domains (site text_pattern_ops) WHERE verified_at IS NOT NULL AND released_at IS NOT NULL;

-- When a key was last used, to the minute, one table for each surface that takes keys: a table has one writing crate.
-- identity-api keeps its own in `api_keys.last_used_at`, and shows the latest of the three. Written by ingest-gateway.
CREATE TABLE key_uses_ingest (
    key_id       uuid PRIMARY KEY REFERENCES api_keys,
    last_used_at timestamptz NOT NULL
);

-- The same of reads. Written by query-api.
CREATE TABLE key_uses_reads (
    key_id       uuid PRIMARY KEY REFERENCES api_keys,
    last_used_at timestamptz NOT NULL
);

-- Keys as lists show them.
CREATE VIEW api_keys_shown AS
    SELECT k.id, k.organization_id, k.name, k.prefix, k.scopes, k.created_at,
           greatest(k.last_used_at, i.last_used_at, r.last_used_at) AS last_used_at, k.revoked_at
    FROM api_keys k LEFT JOIN key_uses_ingest i ON i.key_id = k.id LEFT JOIN key_uses_reads r ON r.key_id = k.id;
