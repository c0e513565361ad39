-- People and how they sign in. identity-api writes all four tables.

-- A person, identified by the email address they sign in with.
CREATE TABLE users (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    email       text NOT NULL UNIQUE,
    is_operator boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- A user session. Only the SHA-256 of the bearer value is stored. A session ends at `expires_at`, or at
-- `idle_until` if it isn't used before. Only sign-in and use change them; `last_seen_at` is updated rarely.
CREATE TABLE user_sessions (
    token_hash   bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    user_id      uuid NOT NULL REFERENCES users,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz,
    idle_until   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    ended_at     timestamptz
);

-- An emailed sign-in link. Only the SHA-256 of its token is stored. `redeemed_at` is set by the one UPDATE that redeems
-- the link. `email` is in lower case.
CREATE TABLE magic_links (
    token_hash  bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    email       text NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    redeemed_at timestamptz
);
CREATE INDEX magic_links_by_email ON magic_links (email, created_at);
CREATE INDEX magic_links_by_expiry ON magic_links (expires_at);

-- A person's account at an OpenID Connect provider. The issuer is part of the key, because two providers can use the same
-- subject for different people. A person has one subject per issuer, so an email address that a provider reassigns does
-- not open the account of its previous owner.
CREATE TABLE user_identities (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    user_id    uuid NOT NULL REFERENCES users,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject),
    CONSTRAINT user_identities_one_subject_of_an_issuer UNIQUE (user_id, issuer)
);
