-- Alerts about differences between what agents claim and what an owner's servers saw (docs/api/reconciliation.md#alerts).

-- When an owner is alerted. Without a row, never. Written by identity-api.
CREATE TABLE reconciliation_alerts (
    organization_id uuid PRIMARY KEY REFERENCES organizations,
    min_events      bigint NOT NULL CHECK (min_events > 0),               -- differing fetches of a licensee in a day
    share           double precision NOT NULL CHECK (share BETWEEN 0 AND 1) -- of all compared fetches
);

-- When an owner's alert was claimed last, so that one process checks it and not all. Written by query-api.
CREATE TABLE reconciliation_checks (
    organization_id uuid PRIMARY KEY REFERENCES organizations,
    checked_at      timestamptz NOT NULL
);

-- The days on which a licensee exceeded the owner's thresholds, one row each, and the figures when that was found first. Written by
-- query-api.
CREATE TABLE reconciliation_exceptions (
    organization_id uuid NOT NULL REFERENCES organizations,
    day             date NOT NULL, -- in UTC
    operator        text NOT NULL, -- the licensee; empty if unknown
    differing       bigint NOT NULL,
    compared        bigint NOT NULL,
    found_at        timestamptz NOT NULL,
    PRIMARY KEY (organization_id, day, operator)
);

-- The exceptions whose webhook messages are in the outbox; inserted in the same transaction. Written by identity-api.
CREATE TABLE reconciliation_messages (
    organization_id uuid NOT NULL,
    day             date NOT NULL,
    operator        text NOT NULL,
    PRIMARY KEY (organization_id, day, operator),
    FOREIGN KEY (organization_id, day, operator) REFERENCES reconciliation_exceptions
);
