-- Key sets of agents that sign their fetches, by the URL that their requests name (docs/api/signatures.md#signed-agents), so that all
-- gateways have the last good copy. Deleted 30 days after the last fetch. Written by ingest-gateway.
CREATE TABLE agent_key_sets (
    url        text PRIMARY KEY,
    document   bytea NOT NULL,
    fetched_at timestamptz NOT NULL
);
CREATE INDEX agent_key_sets_by_time ON agent_key_sets (fetched_at);
