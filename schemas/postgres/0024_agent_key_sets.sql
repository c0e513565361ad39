-- The organization whose log named the key set first. Written by ingest-gateway.
ALTER TABLE agent_key_sets ADD COLUMN organization_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
