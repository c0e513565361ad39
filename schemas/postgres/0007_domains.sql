CREATE EXTENSION IF NOT EXISTS btree_gist;

-- A domain that an organization registered, and the period in which it is that organization's verified domain. Written by
-- identity-api.
--
-- The owner publishes `verification_token` in DNS, in the manifest or on the root page, so it is not secret. Every
-- registration has its own: another organization's token, or that of an earlier registration, doesn't verify the domain.
--
-- While the domain is verified, the token is checked again and again: `proved_at` is when it was last found, `proof_due_at`
-- the next check, `unproved_since` since when it is missing, `proof_failures` how many checks have failed since then. `proof_due_at` is also the
-- lease of the process that checks: it is moved forward before the check, so that only one process checks. All four are
-- empty for a domain that a partner attested.
CREATE TABLE domains (
    id                  uuid PRIMARY KEY DEFAULT uuidv7(),
    organization_id     uuid NOT NULL REFERENCES organizations,
    domain              text NOT NULL, -- without a leading `www.` (docs/api/counting.md#canonical-host)
    site                text NOT NULL, -- the reversed canonical host
    verification_token  text NOT NULL DEFAULT replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
    verification_method text,
    created_at          timestamptz NOT NULL DEFAULT now(),
    verified_at         timestamptz,
    visible_from        timestamptz,   -- the owner can't see earlier events; null: sees all
    proved_at           timestamptz,
    proof_due_at        timestamptz,
    unproved_since      timestamptz,
    proof_failures      int NOT NULL DEFAULT 0,
    released_at         timestamptz,
    -- At most one verified owner of a host at any time, guaranteed by the database.
    CONSTRAINT domains_one_owner_at_a_time
        EXCLUDE USING gist (site WITH =, tstzrange(verified_at, released_at) WITH &&) WHERE (verified_at IS NOT NULL)
);
CREATE UNIQUE INDEX domains_one_registration ON domains (organization_id, site) WHERE released_at IS NULL;
CREATE INDEX domains_by_organization ON domains (organization_id, created_at) WHERE released_at IS NULL;
CREATE INDEX domains_owned ON domains (site text_pattern_ops) WHERE verified_at IS NOT NULL AND released_at IS NULL;
-- Earlier owners of a host or of a subdomain: the next owner can't see their history.
CREATE INDEX domains_formerly_owned ON domains (site text_pattern_ops) WHERE verified_at IS NOT NULL AND released_at IS NOT NULL;
CREATE INDEX domains_proof_due ON domains (proof_due_at)
    WHERE proof_due_at IS NOT NULL AND verified_at IS NOT NULL AND released_at IS NULL;
