-- Who granted a delegation and who set up a webhook endpoint, so that whoever is removed leaves neither behind; named as the audit
-- trail names them. Written by identity-api.
ALTER TABLE delegations
    ADD COLUMN created_by_kind text NOT NULL DEFAULT 'system' CHECK (created_by_kind IN ('key', 'user', 'operator', 'system')),
    ADD COLUMN created_by      uuid,
    ADD CONSTRAINT delegations_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system'));
UPDATE delegations SET created_by_kind = actor_kind, created_by = actor_id
    FROM audit_log WHERE object_kind = 'delegation' AND object_id = delegations.id AND action = 'delegation.created';
CREATE INDEX delegations_by_maker ON delegations (created_by) WHERE created_by IS NOT NULL AND revoked_at IS NULL;

ALTER TABLE webhook_endpoints
    ADD COLUMN created_by_kind text NOT NULL DEFAULT 'system' CHECK (created_by_kind IN ('key', 'user', 'operator', 'system')),
    ADD COLUMN created_by      uuid,
    ADD CONSTRAINT webhook_endpoints_maker CHECK ((created_by IS NULL) = (created_by_kind = 'system'));
UPDATE webhook_endpoints SET created_by_kind = actor_kind, created_by = actor_id
    FROM audit_log WHERE object_kind = 'webhook_endpoint' AND object_id = webhook_endpoints.id AND action = 'webhook.created';
CREATE INDEX webhook_endpoints_by_maker ON webhook_endpoints (created_by) WHERE created_by IS NOT NULL AND disabled_at IS NULL;
