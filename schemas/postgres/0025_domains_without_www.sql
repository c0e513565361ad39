-- A domain is registered, proved and owned without a leading `www.` (docs/api/counting.md#canonical-host): what happens on
-- `www.a.example` is now of the host `a.example`.

-- A registration with it is released, verified or not. It could not become one of the shorter host: who proved `www.a.example`
-- has not proved `a.example`, and everything beneath it. It is registered and proved anew; until then the events of the
-- host are nobody's, and whoever proves the shorter host sees those of before only from the release on, as after any other
-- owner. Also of a name that keeps its `www.` because the rest is a public suffix: the list of those is not in the database,
-- and nothing but a proof that takes a minute is lost.
WITH released AS (
    UPDATE domains SET released_at = greatest(now(), verified_at)
    WHERE released_at IS NULL AND domain LIKE 'www.%'
    RETURNING id, organization_id, domain, released_at, verified_at
)
INSERT INTO audit_log (at, actor_kind, organization_id, action, object_kind, object_id, detail)
SELECT released_at, 'system', organization_id, 'domain.released', 'domain', id,
       jsonb_build_object('domain', domain, 'was_verified', verified_at IS NOT NULL)
FROM released;
