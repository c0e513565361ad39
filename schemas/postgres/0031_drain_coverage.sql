-- What drains held, by the hour (docs/api/drains.md#coverage). Both tables are written by ingest-gateway only, once the records of a
-- body are durable; nothing in them is of a person but how many there were.

-- One row is one hour of one body. Who sums over the batches of an hour knows what came; an hour without a row has no coverage.
CREATE TABLE drain_hours (
    source          uuid NOT NULL,        -- the drain; for a key that is no drain's, UUIDv5 of organisation and provider
    organization_id uuid NOT NULL REFERENCES organizations (id),
    provider        text NOT NULL,
    drain_id        uuid,                 -- the drain, where it is one
    hour            timestamptz NOT NULL, -- its beginning
    batch           bytea NOT NULL,       -- a digest of the body's lines: a body that comes again is one
    lines           bigint NOT NULL,
    kept            bigint NOT NULL,      -- retrievals by bots
    people          bigint NOT NULL,      -- requests of people, and of programs that are nobody's agent
    bad             bigint NOT NULL,      -- lines that could not be read
    dropped         jsonb NOT NULL,       -- {"reason": lines}: bots' requests that are not counted
    refused         jsonb NOT NULL,       -- {"bot": {"status": lines}}: bots that were not given the content
    bytes           bigint NOT NULL,      -- of the lines
    lag_ms          bigint NOT NULL,      -- from the newest of the lines to their acceptance
    received_at     timestamptz NOT NULL,
    PRIMARY KEY (source, hour, batch)
);
-- What a drain, or an organisation, was sent last.
CREATE INDEX drain_hours_by_organization ON drain_hours (organization_id, hour);
CREATE INDEX drain_hours_by_arrival ON drain_hours (source, received_at DESC);
CREATE INDEX drain_hours_by_age ON drain_hours (received_at);

-- The first ten lines of a body that could not be read, in outline: letters and digits are hidden.
CREATE TABLE drain_bad_lines (
    source  uuid NOT NULL,
    batch   bytea NOT NULL,
    n       int NOT NULL,
    reason  text NOT NULL,
    excerpt text NOT NULL,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (source, batch, n)
);
CREATE INDEX drain_bad_lines_by_age ON drain_bad_lines (seen_at);
