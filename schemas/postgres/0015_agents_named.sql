-- When the session named its agent, by the clock of the gateway that took it: an event that could not ask for the agent when
-- it was accepted is given it later only if it had been named by then, so that a replay gives it the same. Empty for a session
-- of before this column: its agent counts as named from the beginning. Written by ingest-gateway.
ALTER TABLE sessions ADD COLUMN agent_named_at timestamptz;
