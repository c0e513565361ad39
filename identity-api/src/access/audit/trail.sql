-- The audit trail of the organization $1, newest first: rows with the action $2, or all; at most $3 after skipping $4. It names
-- actors of the organization only: its keys, and current and former members. Partners, operators, people who contest a domain,
-- and the other organization of a contest are not named.
SELECT a.id, a.at, a.actor_kind, coalesce(k.id, u.id) AS actor_id, coalesce(k.name, u.email) AS actor_name,
       a.action, a.object_kind, a.object_id, a.detail - '{from,to}'::text[] AS detail
FROM audit_log a
LEFT JOIN api_keys k ON a.actor_kind = 'key' AND k.id = a.actor_id AND k.organization_id = $1
LEFT JOIN users u ON a.actor_kind = 'user' AND u.id = a.actor_id AND (
    EXISTS (SELECT FROM memberships m WHERE m.organization_id = $1 AND m.user_id = u.id)
    OR EXISTS (SELECT FROM audit_log j WHERE j.organization_id = $1 AND j.action = 'member.added'
               AND j.object_kind = 'user' AND j.object_id = u.id))
WHERE a.organization_id = $1 AND ($2::text IS NULL OR a.action = $2)
ORDER BY a.at DESC, a.id DESC LIMIT $3 OFFSET $4
