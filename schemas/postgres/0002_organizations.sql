-- Organizations, their members, and requests for new organizations. identity-api writes all three tables.

-- The two click-token columns are the settings in docs/api/identity.md#settings; each is updated by its own statement, so that
-- concurrent updates don't overwrite each other. A trusted partner can create organizations and attest their domains; only an operator can make an
-- organization a trusted partner.
CREATE TABLE organizations (
    id                              uuid PRIMARY KEY DEFAULT uuidv7(),
    name                            text NOT NULL,
    org_type                        text NOT NULL CHECK (org_type IN ('content_owner', 'platform', 'agent')),
    share_sessions_via_click_tokens boolean NOT NULL DEFAULT false,
    visible_in_click_token_lookups  boolean NOT NULL DEFAULT false,
    is_trusted_partner              boolean NOT NULL DEFAULT false,
    provisioned_by                  uuid REFERENCES organizations, -- the partner that created it
    founded_by                      uuid REFERENCES users,         -- the person who created it without approval
    created_at                      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX organizations_provisioned ON organizations (provisioned_by) WHERE provisioned_by IS NOT NULL;
CREATE INDEX organizations_by_founder ON organizations (founded_by) WHERE founded_by IS NOT NULL;

CREATE TABLE memberships (
    organization_id uuid NOT NULL REFERENCES organizations,
    user_id         uuid NOT NULL REFERENCES users,
    role            text NOT NULL CHECK (role IN ('owner', 'member')),
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id);

-- A person's request for a platform or agent organization. `reviewed_by` is null when the request was reviewed on the
-- command line, where no operator is signed in.
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
