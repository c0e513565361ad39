-- Accounts of analysts in ClickHouse. An account reads what its organisation may see: what it owns, or what `grantor_org_id` lets it
-- read, for as long as that holds. Of the password only the SHA-256 is here; ClickHouse gets the same. A row is never deleted, so that
-- no login is given twice. Written by identity-api; query-api keeps ClickHouse in step with it.
CREATE TABLE analyst_accounts (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id uuid NOT NULL REFERENCES organizations,
    grantor_org_id  uuid REFERENCES organizations,
    login           text NOT NULL UNIQUE CHECK (login ~ '^telemetry_analyst_[0-9a-z]{12}$'),
    name            text NOT NULL,
    password_hash   bytea NOT NULL CHECK (octet_length(password_hash) = 32),
    created_at      timestamptz NOT NULL,
    revoked_at      timestamptz
);
CREATE INDEX analyst_accounts_by_organization ON analyst_accounts (organization_id);
