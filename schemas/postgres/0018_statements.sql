-- Monthly statements and their evidence files (docs/api/statements.md). Written by query-api. Rows never change and are never deleted,
-- so neither retention nor a released domain changes a statement.

-- Key of the opaque IDs in an owner's evidence files.
CREATE TABLE statement_owners (
    organization_id uuid PRIMARY KEY REFERENCES organizations,
    id_key          bytea NOT NULL CHECK (length(id_key) = 32)
);

CREATE TABLE statements (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations,
    operator        text, -- the licensee; null: all
    period          text NOT NULL CHECK (period ~ '^[0-9]{4}-[0-9]{2}$'),
    lines_by        text NOT NULL CHECK (lines_by IN ('url', 'section')),
    number          bigint NOT NULL CHECK (number > 0),
    revision        bigint NOT NULL CHECK (revision > 0),
    closed_at       timestamptz NOT NULL,
    sha256          text NOT NULL,
    reports         bigint NOT NULL, -- rows of the evidence file, without hours
    late_reports    bigint NOT NULL,
    document        bytea STORAGE EXTERNAL NOT NULL, -- canonical JSON, compressed with zstd
    actor_kind      text NOT NULL CHECK (actor_kind IN ('key', 'user')),
    actor_id        uuid NOT NULL,
    -- Of two processes that close a month at the same time, one fails and tries again, so numbers have no gaps.
    UNIQUE NULLS NOT DISTINCT (organization_id, operator, number),
    UNIQUE NULLS NOT DISTINCT (organization_id, operator, period, lines_by, revision)
);

-- Pieces of an evidence file, each a zstd frame. They are inserted before their statement, in its transaction.
CREATE TABLE statement_evidence (
    statement_id uuid NOT NULL REFERENCES statements DEFERRABLE INITIALLY DEFERRED,
    piece        int NOT NULL,
    content      bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (statement_id, piece)
);

-- query-api can't write the audit trail, so the database adds the entry, in the same transaction.
CREATE FUNCTION audit_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_log (at, actor_kind, actor_id, organization_id, action, object_kind, object_id, detail)
    VALUES (NEW.closed_at, NEW.actor_kind, NEW.actor_id, NEW.organization_id, 'statement.closed', 'statement', NEW.id,
        jsonb_build_object('period', NEW.period, 'operator', NEW.operator, 'number', NEW.number, 'revision', NEW.revision,
            'sha256', NEW.sha256));
    RETURN NULL;
END $$;
CREATE TRIGGER statement_is_audited AFTER INSERT ON statements FOR EACH ROW EXECUTE FUNCTION audit_statement();
