-- What drains received, by hour (docs/api/drains.md#coverage). Both tables are written by ingest-gateway once the records of
-- a body are durable. They contain counts of requests by people and nothing else about people.

-- One row per hour and body. The sum over an hour's batches is what arrived; an hour without a row has no coverage. Lines that are
-- neither kept, people's, bad nor dropped are bot requests that returned no content: failed_fetches of ClickHouse has them.
CREATE TABLE drain_hours (
    source          uuid NOT NULL,        -- the drain, or for a key that is not a drain's, the UUIDv5 of organization and provider
    organization_id uuid NOT NULL REFERENCES organizations (id),
    provider        text NOT NULL,
    drain_id        uuid,                 -- the drain, if there is one
    hour            timestamptz NOT NULL, -- its start
    batch           bytea NOT NULL,       -- a digest of the body's lines, so that a body sent again counts once
    lines           bigint NOT NULL,
    kept            bigint NOT NULL,      -- fetches by bots
    people          bigint NOT NULL,      -- requests by people, and by programs that are not an agent
    bad             bigint NOT NULL,      -- lines that could not be read
    dropped         jsonb NOT NULL,       -- {"reason": lines}: bot requests that are not counted
    bytes           bigint NOT NULL,      -- of the lines
    lag_ms          bigint NOT NULL,      -- from the newest line to acceptance
    received_at     timestamptz NOT NULL,
    PRIMARY KEY (source, hour, batch)
);
-- For the latest lines of an organization or a drain.
CREATE INDEX drain_hours_by_organization ON drain_hours (organization_id, hour);
CREATE INDEX drain_hours_by_arrival ON drain_hours (source, received_at DESC);
CREATE INDEX drain_hours_by_age ON drain_hours (received_at);

-- The first ten unreadable lines of a body, with letters and digits masked.
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
