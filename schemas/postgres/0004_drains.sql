-- A log drain of a CDN or a server (docs/api/identity.md#drains). `hosts` lists canonical hosts; an empty list means every
-- host that the organization may report for. `sampling` is the share of lines that the provider sends, as the owner states
-- it. The secret that the provider signs with is encrypted and bound to the row. A deleted drain keeps its row, because
-- counts refer to it. `created_by` is set as in `api_keys`. Written by identity-api.
CREATE TABLE drains (
    id                uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id   uuid NOT NULL REFERENCES organizations,
    name              text NOT NULL,
    provider          text NOT NULL,
    hosts             text[] NOT NULL DEFAULT '{}',
    role              text NOT NULL DEFAULT 'edge' CHECK (role IN ('edge', 'origin')),
    sampling          double precision NOT NULL DEFAULT 1 CHECK (sampling > 0 AND sampling <= 1),
    secret_sealed     bytea,
    fastly_service_id text,
    created_by_kind   text NOT NULL DEFAULT 'system' CHECK (created_by_kind IN ('key', 'user', 'operator', 'system')),
    created_by        uuid,
    created_at        timestamptz NOT NULL DEFAULT now(),
    deleted_at        timestamptz,
    CONSTRAINT drains_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system'))
);
CREATE INDEX drains_by_organization ON drains (organization_id, created_at) WHERE deleted_at IS NULL;
-- Fastly asks for the list of all services whose logs are accepted.
CREATE INDEX drains_of_fastly ON drains (fastly_service_id) WHERE deleted_at IS NULL AND fastly_service_id IS NOT NULL;
