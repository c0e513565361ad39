-- An emailed invitation to an organization. Only the SHA-256 of its token is stored. It can be claimed once, before it
-- expires, by a person who signs in with that address. The partner that created the organization is notified of the claim.
-- `invited_by` is the person who invited, `invited_by_key` the key of a partner that did. Written by identity-api.
CREATE TABLE invites (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations,
    email           text NOT NULL,
    role            text NOT NULL CHECK (role IN ('owner', 'member')),
    token_hash      bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    provisioned_by  uuid REFERENCES organizations,
    invited_by      uuid REFERENCES users,
    invited_by_key  uuid REFERENCES api_keys,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    mailed_at       timestamptz,
    withdrawn_at    timestamptz,
    claimed_at      timestamptz,
    claimed_by      uuid REFERENCES users,
    CHECK ((claimed_at IS NULL) = (claimed_by IS NULL)),
    CHECK (claimed_at IS NULL OR withdrawn_at IS NULL)
);
-- A person has one open invite per organization: a new one withdraws the previous one.
CREATE UNIQUE INDEX invites_one_open ON invites (organization_id, email) WHERE claimed_at IS NULL AND withdrawn_at IS NULL;
-- For the limits on invites per person, key and address.
CREATE INDEX invites_by_person ON invites (invited_by, created_at) WHERE invited_by IS NOT NULL;
CREATE INDEX invites_by_key ON invites (invited_by_key, created_at) WHERE invited_by_key IS NOT NULL;
CREATE INDEX invites_by_address ON invites (email, created_at);
