-- Lines received from drains, by hour (docs/api/drains.md#coverage). ingest-gateway writes all three tables once the
-- records of a body are durable. They contain counts of requests by people and no other data about people.

-- One row per drain and hour: the sums over its bodies. An hour without a row has no coverage. Lines that are neither kept,
-- people's, bad nor dropped are bot requests that returned no content: ClickHouse has them in failed_fetches.
CREATE TABLE drain_hours (
    source          uuid NOT NULL,        -- the drain; for other keys, the UUIDv5 of organization and provider
    organization_id uuid NOT NULL REFERENCES organizations (id),
    provider        text NOT NULL,
    drain_id        uuid,                 -- the drain, if there is one
    hour            timestamptz NOT NULL, -- its start
    lines           bigint NOT NULL,
    kept            bigint NOT NULL,      -- fetches by bots
    people          bigint NOT NULL,      -- requests by people, and by programs that are not an agent
    bad             bigint NOT NULL,      -- unreadable lines
    dropped         jsonb NOT NULL,       -- {"reason": lines}: bot requests that are not counted, and lines of other hosts
    bytes           bigint NOT NULL,      -- of the lines
    lag_ms          bigint NOT NULL,      -- longest time from the newest line of a body to its acceptance
    received_at     timestamptz NOT NULL, -- of the latest body
    PRIMARY KEY (source, hour)
);
CREATE INDEX drain_hours_by_organization ON drain_hours (organization_id, hour);
CREATE INDEX drain_hours_by_age ON drain_hours (hour);

-- One row per body, so that a body sent again counts once.
CREATE TABLE drain_bodies (
    source      uuid NOT NULL,
    digest      bytea NOT NULL, -- of the body's lines and their results
    received_at timestamptz NOT NULL,
    PRIMARY KEY (source, digest)
);
CREATE INDEX drain_bodies_by_age ON drain_bodies (received_at);

-- The latest unreadable lines of a drain, with letters and digits masked.
CREATE TABLE drain_bad_lines (
    source  uuid NOT NULL,
    digest  bytea NOT NULL, -- the body
    n       int NOT NULL,
    reason  text NOT NULL,
    excerpt text NOT NULL,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (source, digest, n)
);
CREATE INDEX drain_bad_lines_by_age ON drain_bad_lines (seen_at);
