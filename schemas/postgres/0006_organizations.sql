-- Who belongs to an organisation, who asks for one, and which partners may set up others.

-- A trusted partner may provision organisations and attest their domains; only an operator says who is one.
-- `provisioned_by` is the partner that set an organisation up. Both are written by identity-api.
ALTER TABLE organizations
    ADD COLUMN is_trusted_partner boolean NOT NULL DEFAULT false,
    ADD COLUMN provisioned_by     uuid REFERENCES organizations;
CREATE INDEX organizations_provisioned ON organizations (provisioned_by) WHERE provisioned_by IS NOT NULL;

-- An invitation by e-mail. The token is mailed; only its SHA-256 is stored. It is claimed once, before it expires, by
-- who signs in with that address. A partner that provisioned the organisation is told of the claim. Written by
-- identity-api.
CREATE TABLE invites (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations,
    email           text NOT NULL,
    role            text NOT NULL CHECK (role IN ('owner', 'member')),
    token_hash      bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    provisioned_by  uuid REFERENCES organizations,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    mailed_at       timestamptz,
    withdrawn_at    timestamptz,
    claimed_at      timestamptz,
    claimed_by      uuid REFERENCES users,
    CHECK ((claimed_at IS NULL) = (claimed_by IS NULL)),
    CHECK (claimed_at IS NULL OR withdrawn_at IS NULL)
);
-- One open invite of a person: a new one withdraws the one before.
CREATE UNIQUE INDEX invites_one_open ON invites (organization_id, email) WHERE claimed_at IS NULL AND withdrawn_at IS NULL;

-- A person asks for a platform or agent organisation. `reviewed_by` is absent when it was reviewed at the machine
-- itself, in no operator's name. Written by identity-api.
CREATE TABLE access_requests (
    id              uuid PRIMARY KEY,
    user_id         uuid NOT NULL REFERENCES users,
    org_type        text NOT NULL CHECK (org_type IN ('platform', 'agent')),
    org_name        text NOT NULL,
    admin_email     text NOT NULL,
    use_case        text NOT NULL,
    status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected')),
    created_at      timestamptz NOT NULL,
    reviewed_at     timestamptz,
    reviewed_by     uuid REFERENCES users,
    reviewer_note   text,
    approved_org_id uuid UNIQUE REFERENCES organizations,
    CHECK ((status = 'pending') = (reviewed_at IS NULL)),
    CHECK (reviewed_at IS NOT NULL OR (reviewed_by IS NULL AND reviewer_note IS NULL)),
    CHECK ((status = 'approved') = (approved_org_id IS NOT NULL))
);
CREATE INDEX access_requests_by_user ON access_requests (user_id, created_at);
CREATE INDEX access_requests_by_age ON access_requests (created_at);
