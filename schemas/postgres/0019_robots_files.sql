-- The robots.txt files of verified domains (docs/api/robots.md). Written by identity-api, read by query-api.

-- `due_at` is also the lease of the process that checks: it is moved forward before the check.
CREATE TABLE robots_checks (
    site       text PRIMARY KEY, -- the reversed canonical host
    due_at     timestamptz NOT NULL,
    checked_at timestamptz,      -- the latest check
    state      text CHECK (state IN ('found', 'missing', 'unreachable'))
);
CREATE INDEX robots_checks_due ON robots_checks (due_at);

-- One row per version; empty if the host has no file. A version applies until the next one is seen.
CREATE TABLE robots_files (
    site       text NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen  timestamptz NOT NULL,
    body       text NOT NULL,
    PRIMARY KEY (site, first_seen)
);
