-- What a key reports is held to the public 1.0 rules whole, whatever the gateway's own setting. Written by identity-api.
ALTER TABLE api_keys ADD COLUMN strict boolean NOT NULL DEFAULT false;
