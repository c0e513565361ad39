-- Access that a content owner gives a platform to its telemetry. `created_by` is set as in `api_keys`; removing a person
-- revokes the delegations they created. Written by identity-api.
CREATE TABLE delegations (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    grantor_org_id  uuid NOT NULL REFERENCES organizations,
    grantee_org_id  uuid NOT NULL REFERENCES organizations,
    scopes          text[] NOT NULL,
    created_by_kind text NOT NULL DEFAULT 'system' CHECK (created_by_kind IN ('key', 'user', 'operator', 'system')),
    created_by      uuid,
    created_at      timestamptz NOT NULL DEFAULT now(),
    revoked_at      timestamptz,
    CHECK (grantor_org_id <> grantee_org_id),
    CONSTRAINT delegations_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system'))
);
CREATE UNIQUE INDEX delegations_one_active_per_pair ON delegations (grantor_org_id, grantee_org_id) WHERE revoked_at IS NULL;
-- For the limit on changes of a pair.
CREATE INDEX delegations_by_pair ON delegations (grantor_org_id, grantee_org_id, created_at);
-- The unique index starts with the grantor; lists also filter by grantee.
CREATE INDEX delegations_by_grantee ON delegations (grantee_org_id) WHERE revoked_at IS NULL;
CREATE INDEX delegations_by_maker ON delegations (created_by) WHERE created_by IS NOT NULL AND revoked_at IS NULL;

-- A platform's request to the verified owner of a domain for a delegation. A pending row past `expires_at` is expired even
-- if its status doesn't say so yet. Written by identity-api.
CREATE TABLE delegation_requests (
    id               uuid PRIMARY KEY DEFAULT uuidv7(),
    requester_org_id uuid NOT NULL REFERENCES organizations,
    grantor_org_id   uuid NOT NULL REFERENCES organizations,
    domain           text NOT NULL,
    scopes           text[] NOT NULL,
    status           text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    resolved_at      timestamptz,
    delegation_id    uuid UNIQUE REFERENCES delegations,
    CHECK (requester_org_id <> grantor_org_id),
    CHECK ((status IN ('approved', 'denied')) = (resolved_at IS NOT NULL)),
    CHECK ((status = 'approved') = (delegation_id IS NOT NULL))
);
CREATE UNIQUE INDEX delegation_requests_one_pending_per_pair
    ON delegation_requests (requester_org_id, grantor_org_id) WHERE status = 'pending';
CREATE INDEX delegation_requests_by_pair ON delegation_requests (requester_org_id, grantor_org_id, created_at);
CREATE INDEX delegation_requests_by_grantor ON delegation_requests (grantor_org_id) WHERE status = 'pending';
