-- Sessions and click tokens, which the reporter's next call can already use.

-- A reported session. The key starts with the organization, so an id always belongs to its caller, who can neither change another
-- organization's session nor find out about it. The first value of a column stays, with two exceptions: a privacy level can
-- become stricter, and the agent and `created_at` become those of an earlier report.
-- ingest-gateway writes the values of calls to /sessions/*, before their response. stream-workers writes the values in events for
-- the sessions that they name, before the events can be read.
CREATE TABLE sessions (
    organization_id     uuid NOT NULL,
    session_id          uuid NOT NULL,
    initiator_type      text CHECK (initiator_type IN ('user', 'agent')),
    agent_id            text,
    -- When the report that named the agent was accepted, by the gateway's clock. The agent is that of events accepted from then
    -- on, so that a replay gives the same result.
    agent_named_at      timestamptz,
    manifest_ref        text,
    content_scope       text,
    external_session_id text,
    prior_session_ids   uuid[] NOT NULL DEFAULT '{}',
    -- The session that delegated work to this one, as an event's envelope names it. An uploaded session has it in `extra`.
    parent_session_id   text,
    -- 0 minimal, 1 intent, 2 summary, 3 full. A later value can only be stricter, so the smallest one stays.
    privacy_level       smallint CHECK (privacy_level BETWEEN 0 AND 3),
    started_at          timestamptz,
    ended_at            timestamptz,
    -- text, not jsonb: compared and shown as it was written.
    outcome             text,
    -- A JSON object of the reported members that have no column, such as `data` or `conformance_level`, as written, without the
    -- members that the session's privacy level withholds.
    extra               text,
    created_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, session_id),
    CONSTRAINT sessions_agent_has_time CHECK ((agent_id IS NULL) = (agent_named_at IS NULL))
);
CREATE INDEX sessions_by_age ON sessions (created_at);
-- For the outcomes of a period: an outcome belongs to the session's end, otherwise to its start, otherwise to its first report.
CREATE INDEX sessions_by_outcome ON sessions (organization_id, (coalesce(ended_at, started_at, created_at)))
    WHERE outcome IS NOT NULL;

-- A click token. Only its SHA-256 is stored. Written by ingest-gateway.
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
-- For the deletion of an old session, which checks for remaining click tokens, and for the foreign key.
CREATE INDEX click_tokens_by_session ON click_tokens (organization_id, session_id);
