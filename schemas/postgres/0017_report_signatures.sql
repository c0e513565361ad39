-- Signed reports (docs/api/signatures.md).

-- Whether reports with this key need a valid signature.
ALTER TABLE api_keys ADD COLUMN require_signature boolean NOT NULL DEFAULT false;

-- `CREATE OR REPLACE` only adds columns at the end.
CREATE OR REPLACE VIEW api_keys_shown AS
    SELECT k.id, k.organization_id, k.name, k.prefix, k.scopes, k.created_at,
           greatest(k.last_used_at, i.last_used_at, r.last_used_at) AS last_used_at, k.revoked_at,
           k.created_by_kind, k.created_by,
           CASE k.created_by_kind
               WHEN 'user' THEN (SELECT u.email FROM users u WHERE u.id = k.created_by)
               WHEN 'key' THEN (SELECT m.name FROM api_keys m WHERE m.id = k.created_by)
           END AS created_by_name,
           k.drain_id, k.expires_at, k.require_signature
    FROM api_keys k LEFT JOIN key_uses_ingest i ON i.key_id = k.id LEFT JOIN key_uses_reads r ON r.key_id = k.id;

-- Nonces of valid signatures, with the request that used each first, so that all gateways reject another one. A retry of the same
-- request is not a replay. Deleted when the signature has expired. Written by ingest-gateway.
CREATE TABLE used_nonces (
    nonce_hash bytea PRIMARY KEY CHECK (length(nonce_hash) = 32), -- SHA-256 of the key's thumbprint and the nonce
    request    bytea NOT NULL,                                    -- digest of the request's reports
    expires_at timestamptz NOT NULL
);
CREATE INDEX used_nonces_by_expiry ON used_nonces (expires_at);
