-- Who may see and report what. Each table names the one crate that writes it.

CREATE EXTENSION IF NOT EXISTS btree_gist;

-- Written by identity-api.
CREATE TABLE organizations (
    id         uuid PRIMARY KEY DEFAULT uuidv7(),
    name       text NOT NULL,
    org_type   text NOT NULL CHECK (org_type IN ('content_owner', 'platform', 'agent')),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Written by identity-api.
CREATE TABLE users (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    email       text NOT NULL UNIQUE,
    is_operator boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- Written by identity-api.
CREATE TABLE memberships (
    organization_id uuid NOT NULL REFERENCES organizations,
    user_id         uuid NOT NULL REFERENCES users,
    role            text NOT NULL CHECK (role IN ('owner', 'member')),
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id);

-- A person signed in. Only the SHA-256 of the bearer value is stored. Written by identity-api.
CREATE TABLE user_sessions (
    token_hash bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    user_id    uuid NOT NULL REFERENCES users,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz
);

-- Only the SHA-256 of the key is stored; `prefix` is what a list may show. Written by identity-api.
CREATE TABLE api_keys (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id uuid NOT NULL REFERENCES organizations,
    name            text NOT NULL,
    prefix          text NOT NULL,
    key_hash        bytea NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    scopes          text[] NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    last_used_at    timestamptz,
    revoked_at      timestamptz
);
CREATE INDEX api_keys_by_organization ON api_keys (organization_id);

-- A domain registered by an organisation, and the interval in which it is that organisation's verified domain.
-- `site` is the reversed canonical host. Events before `visible_from` are not shown to this owner; null shows
-- all history (the first owner of a host). Written by identity-api.
CREATE TABLE domains (
    id                  uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id     uuid NOT NULL REFERENCES organizations,
    domain              text NOT NULL,
    site                text NOT NULL,
    verification_method text,
    created_at          timestamptz NOT NULL DEFAULT now(),
    verified_at         timestamptz,
    visible_from        timestamptz,
    released_at         timestamptz,
    -- At most one verified owner of a host at any time, decided here and not by code.
    CONSTRAINT domains_one_owner_at_a_time
        EXCLUDE USING gist (site WITH =, tstzrange(verified_at, released_at) WITH &&) WHERE (verified_at IS NOT NULL)
);
CREATE UNIQUE INDEX domains_one_registration ON domains (organization_id, site) WHERE released_at IS NULL;
CREATE INDEX domains_owned ON domains (site text_pattern_ops) WHERE verified_at IS NOT NULL AND released_at IS NULL;

-- A content owner lets a platform read its telemetry. Written by identity-api.
CREATE TABLE delegations (
    id             uuid PRIMARY KEY DEFAULT uuidv7(),
    grantor_org_id uuid NOT NULL REFERENCES organizations,
    grantee_org_id uuid NOT NULL REFERENCES organizations,
    scopes         text[] NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    revoked_at     timestamptz,
    CHECK (grantor_org_id <> grantee_org_id)
);
CREATE UNIQUE INDEX delegations_one_active_per_pair ON delegations (grantor_org_id, grantee_org_id) WHERE revoked_at IS NULL;
