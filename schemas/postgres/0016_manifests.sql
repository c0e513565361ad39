-- Manifests that organizations registered, and the signing keys they list (docs/api/identity.md#manifests). Written by identity-api.

-- Hosts on which an operator lets an organization publish manifests. Content owners verify domains instead.
CREATE TABLE manifest_hosts (
    organization_id uuid NOT NULL REFERENCES organizations,
    site            text NOT NULL, -- the reversed canonical host
    attested_at     timestamptz NOT NULL,
    PRIMARY KEY (organization_id, site)
);

-- `due_at` is also the lease of the process that checks: it is moved forward before the check.
CREATE TABLE manifests (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id uuid NOT NULL REFERENCES organizations,
    url             text NOT NULL,
    site            text NOT NULL,
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'valid', 'invalid', 'unreachable', 'unverified')),
    reason          text,        -- why the latest check failed
    checked_at      timestamptz, -- the latest check
    valid_at        timestamptz, -- the latest check that returned keys
    due_at          timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    deleted_at      timestamptz
);
CREATE UNIQUE INDEX manifests_one_registration ON manifests (organization_id, url) WHERE deleted_at IS NULL;
CREATE INDEX manifests_due ON manifests (due_at) WHERE deleted_at IS NULL;

-- One row per version of a key: a key that changes, or returns, gets another row. Rows are never deleted, because they are the
-- evidence for earlier signatures. A key signs from `first_seen` until `ended_at`.
CREATE TABLE manifest_keys (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    manifest_id     uuid NOT NULL REFERENCES manifests,
    organization_id uuid NOT NULL REFERENCES organizations,
    key_id          text NOT NULL,
    thumbprint      text NOT NULL, -- RFC 7638
    public_key      bytea NOT NULL CHECK (length(public_key) = 32),
    expires         timestamptz,
    first_seen      timestamptz NOT NULL,
    last_seen       timestamptz NOT NULL,
    ended_at        timestamptz
);
CREATE UNIQUE INDEX manifest_keys_current ON manifest_keys (manifest_id, key_id) WHERE ended_at IS NULL;
CREATE INDEX manifest_keys_by_organization ON manifest_keys (organization_id, first_seen);
