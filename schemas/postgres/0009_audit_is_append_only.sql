-- What is written in the audit trail stays, and what is counted against a person names them.

-- Nobody changes or removes a row of the trail, not even its writer.
CREATE FUNCTION refuse_change_of_audit_log() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'audit_log is append-only'; END $$;
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit_log();

-- Who made an invite: a person, or a partner by a key; neither is known of those from before. Written by identity-api.
ALTER TABLE invites
    ADD COLUMN invited_by     uuid REFERENCES users,
    ADD COLUMN invited_by_key uuid REFERENCES api_keys;
CREATE INDEX invites_by_person ON invites (invited_by, created_at) WHERE invited_by IS NOT NULL;
CREATE INDEX invites_by_key ON invites (invited_by_key, created_at) WHERE invited_by_key IS NOT NULL;
CREATE INDEX invites_by_address ON invites (email, created_at);

-- The person who founded an organisation without asking anybody. Written by identity-api.
ALTER TABLE organizations ADD COLUMN founded_by uuid REFERENCES users;
CREATE INDEX organizations_by_founder ON organizations (founded_by) WHERE founded_by IS NOT NULL;
