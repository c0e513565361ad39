-- Analyst accounts in ClickHouse. An account can read its organization's own data or, with `grantor_org_id`, the data that this
-- organization shares with it, for as long as it does. Only the SHA-256 of the password is stored, also in ClickHouse. Removing
-- the creator, or the member who uses it, revokes it; `created_by` is set as in `api_keys`. Rows are never deleted, so a login is
-- never reused. Written by identity-api; query-api updates ClickHouse.
CREATE TABLE analyst_accounts (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id uuid NOT NULL REFERENCES organizations,
    grantor_org_id  uuid REFERENCES organizations,
    user_id         uuid REFERENCES users,
    login           text NOT NULL UNIQUE CHECK (login ~ '^telemetry_analyst_[0-9a-z]{12}$'),
    name            text NOT NULL,
    password_hash   bytea NOT NULL CHECK (octet_length(password_hash) = 32),
    created_by_kind text NOT NULL CHECK (created_by_kind IN ('operator', 'system')),
    created_by      uuid,
    created_at      timestamptz NOT NULL,
    revoked_at      timestamptz,
    CONSTRAINT analyst_accounts_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system'))
);
CREATE INDEX analyst_accounts_by_organization ON analyst_accounts (organization_id);

-- When `telemetry query-api analysts` last finished a round: without it no account can be created. Written by query-api.
CREATE TABLE analyst_upkeep (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    seen_at timestamptz NOT NULL
);
