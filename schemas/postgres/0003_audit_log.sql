-- The audit trail. A row is inserted in the transaction of the change and contains no secrets. Written by identity-api.
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

-- Rows can't be changed or removed, not even by identity-api.
CREATE FUNCTION refuse_change_of_audit_log() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'audit_log is append-only'; END $$;
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit_log();
