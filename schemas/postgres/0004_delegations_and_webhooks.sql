-- Who asks to read what, who is told of it, and who changed it.

-- What click-token lookups may show (docs/api/identity.md#settings). Each is set by a statement of its own, so that two
-- changes at once keep both. Written by identity-api.
ALTER TABLE organizations
    ADD COLUMN share_sessions_via_click_tokens boolean NOT NULL DEFAULT false,
    ADD COLUMN visible_in_click_token_lookups  boolean NOT NULL DEFAULT false;

-- A platform asks the verified owner of a domain for a delegation. A pending row past `expires_at` is expired whether
-- or not its status says so already. Written by identity-api.
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
CREATE INDEX delegation_requests_by_grantor ON delegation_requests (grantor_org_id) WHERE status = 'pending';
-- The unique index of the pair starts with the grantor; lists also ask from the other side.
CREATE INDEX delegations_by_grantee ON delegations (grantee_org_id) WHERE revoked_at IS NULL;

-- A receiver of webhooks. The secret must sign, so it is not hashed but sealed: encrypted with the key that the
-- setting TELEMETRY_SECRETS_KEY holds, bound to the row's id. At most ten active ones of an organisation: whoever adds
-- one holds the row lock of the organisation while counting. Written by identity-api.
CREATE TABLE webhook_endpoints (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations,
    url             text NOT NULL,
    event_types     text[] NOT NULL CHECK (cardinality(event_types) > 0),
    secret_sealed   bytea NOT NULL,
    created_at      timestamptz NOT NULL,
    disabled_at     timestamptz
);
CREATE INDEX webhook_endpoints_active ON webhook_endpoints (organization_id) WHERE disabled_at IS NULL;

-- The outbox: one row for one message to one endpoint, inserted in the transaction of the change it tells of, and
-- never updated. `id` is also the id in the body and in the header; `body` is the exact text to be signed. Who delivers
-- keeps attempts in a table of its own, and starts none for an endpoint that is disabled: that is how disabling drops
-- what is pending. Written by identity-api.
CREATE TABLE webhook_deliveries (
    id              uuid PRIMARY KEY,
    endpoint_id     uuid NOT NULL REFERENCES webhook_endpoints,
    organization_id uuid NOT NULL REFERENCES organizations,
    event_type      text NOT NULL,
    body            text NOT NULL,
    created_at      timestamptz NOT NULL
);
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, created_at);

-- Who changed what, inserted in the transaction of the change and never updated. Holds no secret. Written by
-- identity-api.
CREATE TABLE audit_log (
    id              uuid PRIMARY KEY DEFAULT uuidv7(),
    at              timestamptz NOT NULL,
    actor_kind      text NOT NULL CHECK (actor_kind IN ('key', 'user', 'operator', 'system')),
    actor_id        uuid,
    organization_id uuid REFERENCES organizations,
    action          text NOT NULL,
    object_kind     text NOT NULL,
    object_id       uuid NOT NULL,
    detail          jsonb NOT NULL DEFAULT '{}',
    CHECK ((actor_id IS NULL) = (actor_kind = 'system'))
);
CREATE INDEX audit_log_by_organization ON audit_log (organization_id, at);
CREATE INDEX audit_log_by_object ON audit_log (object_kind, object_id);
