-- A proof of a domain is looked at again for as long as the domain is held by it: when it was last found, when it is looked at
-- next, since when it is not found, and how often it was not. `proof_due_at` is also the lease of whoever looks: it is moved on
-- before anybody looks, so that several processes look once. All of it is absent where a domain is held on somebody's word.
-- Written by identity-api.
ALTER TABLE domains
    ADD COLUMN proved_at      timestamptz,
    ADD COLUMN proof_due_at   timestamptz,
    ADD COLUMN unproved_since timestamptz,
    ADD COLUMN proof_failures int NOT NULL DEFAULT 0;
UPDATE domains SET proved_at = verified_at, proof_due_at = verified_at + interval '30 days'
    WHERE verified_at IS NOT NULL AND released_at IS NULL AND verification_method IN ('dns_txt', 'well_known', 'meta_tag');
CREATE INDEX domains_proof_due ON domains (proof_due_at)
    WHERE proof_due_at IS NOT NULL AND verified_at IS NOT NULL AND released_at IS NULL;
