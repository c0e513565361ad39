-- Webhook endpoints and the messages to them. identity-api writes all three tables.

-- A webhook endpoint. Its secret signs requests, so it is encrypted instead of hashed, with the key in TELEMETRY_SECRETS_KEY,
-- and bound to the row's id. An organization has at most ten active endpoints: adding one locks the organization's row
-- while counting. A disabled endpoint can be enabled again; a deleted one stays disabled and no list shows it. `created_by`
-- is set as in `api_keys`; removing a person deletes the endpoints they created.
CREATE TABLE webhook_endpoints (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations,
    url             text NOT NULL,
    event_types     text[] NOT NULL CHECK (cardinality(event_types) > 0),
    secret_sealed   bytea NOT NULL,
    created_by_kind text NOT NULL DEFAULT 'system' CHECK (created_by_kind IN ('key', 'user', 'operator', 'system')),
    created_by      uuid,
    created_at      timestamptz NOT NULL,
    disabled_at     timestamptz,
    deleted_at      timestamptz,
    CONSTRAINT webhook_endpoints_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system')),
    CONSTRAINT webhook_endpoints_deleted_are_disabled CHECK (deleted_at IS NULL OR disabled_at IS NOT NULL)
);
CREATE INDEX webhook_endpoints_active ON webhook_endpoints (organization_id) WHERE disabled_at IS NULL;
CREATE INDEX webhook_endpoints_by_maker ON webhook_endpoints (created_by) WHERE created_by IS NOT NULL AND disabled_at IS NULL;

-- The outbox: one row per message and endpoint, inserted in the transaction of the change it reports and never updated.
-- `id` is also the id in the body and in the header; `body` is the exact text that is signed.
CREATE TABLE webhook_deliveries (
    id              uuid PRIMARY KEY,
    endpoint_id     uuid NOT NULL REFERENCES webhook_endpoints,
    organization_id uuid NOT NULL REFERENCES organizations,
    event_type      text NOT NULL,
    body            text NOT NULL,
    created_at      timestamptz NOT NULL,
    sender_id       uuid REFERENCES organizations -- who made the change; null: the endpoint's own organization
);
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, created_at);

-- An owner's request to send a delivery again, with the whole retry schedule.
CREATE TABLE webhook_redeliveries (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    delivery_id uuid NOT NULL REFERENCES webhook_deliveries ON DELETE CASCADE,
    created_at  timestamptz NOT NULL
);
CREATE INDEX webhook_redeliveries_by_delivery ON webhook_redeliveries (delivery_id);
