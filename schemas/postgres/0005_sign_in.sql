-- How people sign in, and how long that lasts.

-- A session ends by itself at `expires_at`, and sooner, at `idle_until`, when nobody uses it. Both are moved only by a
-- sign-in and by use; `last_seen_at` is written seldom. Written by identity-api.
ALTER TABLE user_sessions
    ADD COLUMN last_seen_at timestamptz,
    ADD COLUMN idle_until   timestamptz NOT NULL DEFAULT 'infinity';
ALTER TABLE user_sessions ALTER COLUMN idle_until DROP DEFAULT;

-- A link that was mailed. Only the SHA-256 of its token is stored; `redeemed_at` is set by the one UPDATE that redeems
-- it. `email` is the address in lower case. Written by identity-api.
CREATE TABLE magic_links (
    token_hash  bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    email       text NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    redeemed_at timestamptz
);
CREATE INDEX magic_links_by_email ON magic_links (email, created_at);
CREATE INDEX magic_links_by_expiry ON magic_links (expires_at);

-- Who somebody is at an OpenID Connect provider. The issuer is part of the key: another provider's subject of the same
-- name is somebody else. A person has one subject of an issuer, so an address that a provider gave to somebody new does
-- not open the account of who had it before. Written by identity-api.
CREATE TABLE user_identities (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    user_id    uuid NOT NULL REFERENCES users,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject),
    CONSTRAINT user_identities_one_subject_of_an_issuer UNIQUE (user_id, issuer)
);
