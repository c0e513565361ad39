-- Writes sessions that events named. Repeating it, or another order, gives the same agent, level and age: the earliest agent and
-- the strictest level win. In the other columns, the first value wins.
-- $1 to $7, one element per report, in the order of acceptance: organization, session, level, parent, start, manifest, agent.
-- $8: time of acceptance.
-- Grouped, because one statement can't update a row twice; sorted, to prevent deadlocks between statements.
INSERT INTO sessions AS s
    (organization_id, session_id, privacy_level, parent_session_id, started_at, manifest_ref, agent_id, agent_named_at, created_at)
SELECT
    org,
    session,
    min(level),
    (array_agg(parent ORDER BY place) FILTER (WHERE parent IS NOT NULL))[1],
    (array_agg(start ORDER BY place) FILTER (WHERE start IS NOT NULL))[1],
    (array_agg(manifest ORDER BY place) FILTER (WHERE manifest IS NOT NULL))[1],
    (array_agg(agent ORDER BY place) FILTER (WHERE agent IS NOT NULL))[1],
    (array_agg(accepted_at ORDER BY place) FILTER (WHERE agent IS NOT NULL))[1],
    min(accepted_at)
FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::timestamptz[])
    WITH ORDINALITY AS named (org, session, level, parent, start, manifest, agent, accepted_at, place)
GROUP BY org, session
ORDER BY org, session
ON CONFLICT (organization_id, session_id) DO UPDATE SET
    privacy_level = least(s.privacy_level, excluded.privacy_level),
    parent_session_id = coalesce(s.parent_session_id, excluded.parent_session_id),
    started_at = coalesce(s.started_at, excluded.started_at),
    manifest_ref = coalesce(s.manifest_ref, excluded.manifest_ref),
    agent_id = CASE WHEN s.agent_named_at <= excluded.agent_named_at OR excluded.agent_id IS NULL
        THEN s.agent_id ELSE excluded.agent_id END,
    agent_named_at = least(s.agent_named_at, excluded.agent_named_at),
    created_at = least(s.created_at, excluded.created_at)
-- Unchanged rows are not written.
WHERE excluded.created_at < s.created_at
    OR excluded.privacy_level < s.privacy_level OR (s.privacy_level IS NULL AND excluded.privacy_level IS NOT NULL)
    OR (s.parent_session_id IS NULL AND excluded.parent_session_id IS NOT NULL)
    OR (s.started_at IS NULL AND excluded.started_at IS NOT NULL)
    OR (s.manifest_ref IS NULL AND excluded.manifest_ref IS NOT NULL)
    OR excluded.agent_named_at < s.agent_named_at OR (s.agent_id IS NULL AND excluded.agent_id IS NOT NULL)
