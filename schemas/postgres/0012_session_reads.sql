-- The organizations for which a user session has read telemetry, one row each, written before the first response. Rows are
-- deleted with their session. Written by query-api.
CREATE TABLE session_reads (
    token_hash      bytea NOT NULL REFERENCES user_sessions ON DELETE CASCADE,
    organization_id uuid NOT NULL REFERENCES organizations,
    user_id         uuid NOT NULL REFERENCES users,
    first_read_at   timestamptz NOT NULL,
    PRIMARY KEY (token_hash, organization_id)
);

-- query-api can't write the audit trail, so the database adds the entry, in the same transaction.
CREATE FUNCTION audit_session_read() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_log (at, actor_kind, actor_id, organization_id, action, object_kind, object_id, detail)
    VALUES (NEW.first_read_at, 'user', NEW.user_id, NEW.organization_id, 'telemetry.read', 'user', NEW.user_id, '{}');
    RETURN NULL;
END $$;
CREATE TRIGGER session_read_is_audited AFTER INSERT ON session_reads
    FOR EACH ROW EXECUTE FUNCTION audit_session_read();
