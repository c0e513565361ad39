-- What must be readable by the next call of a reporter: its sessions and its click tokens.

-- A reported session. The key starts with the organisation, so an id is only ever the caller's own: nobody can
-- write into, or find out about, another's. Rows come from /sessions/start and /sessions/bulk, and from events
-- that name a session nobody started. Written by ingest-gateway.
CREATE TABLE sessions (
    organization_id     uuid NOT NULL,
    session_id          uuid NOT NULL,
    initiator_type      text CHECK (initiator_type IN ('user', 'agent')),
    agent_id            text,
    manifest_ref        text,
    content_scope       text,
    external_session_id text,
    prior_session_ids   uuid[] NOT NULL DEFAULT '{}',
    -- 0 minimal, 1 intent, 2 summary, 3 full: a later value may only tighten, so the least one stays.
    privacy_level       smallint CHECK (privacy_level BETWEEN 0 AND 3),
    started_at          timestamptz,
    ended_at            timestamptz,
    -- text, not jsonb: compared and shown as it was written.
    outcome             text,
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, session_id)
);
CREATE INDEX sessions_by_age ON sessions (created_at);

-- Only the SHA-256 of a token is stored. Written by ingest-gateway.
CREATE TABLE click_tokens (
    token_hash      bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    organization_id uuid NOT NULL,
    session_id      uuid NOT NULL,
    content_url     text NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    FOREIGN KEY (organization_id, session_id) REFERENCES sessions
);
CREATE INDEX click_tokens_by_expiry ON click_tokens (expires_at);
