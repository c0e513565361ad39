-- An organization's reports of one of its sessions, oldest first. The session index returns the places of all reports that
-- have ever named the session. Only the newest version at each place is returned, unless it is a deletion or names another session. A
-- report with another organization's click token belongs to that organization's session (platform), even if both sessions have
-- the same id.
SELECT key, site, event_type, at_ms, role, agent_id, content_url, content_id, content_telemetry_id, event_id, turn_id,
    output_id, data, extra
FROM (
    SELECT
        identity AS key,
        toString(site) AS site,
        toString(type) AS event_type,
        toUnixTimestamp64Milli(at) AS at_ms,
        source_role AS role,
        toString(agent) AS agent_id,
        url AS content_url,
        content_id,
        content_telemetry_id,
        event_id,
        turn_id,
        output_id,
        data,
        extra,
        received,
        is_issuers,
        platform,
        session,
        is_deleted
    FROM reports
    WHERE (organization, at, identity) IN (
        SELECT organization, at, identity
        FROM reports
        WHERE organization = {organization:UUID} AND session = {session:UUID} AND is_issuers = 0
    )
    ORDER BY version DESC
    LIMIT 1 BY organization, at, identity
)
WHERE is_deleted = 0 AND is_issuers = 0 AND platform = {organization:UUID} AND session = {session:UUID}
ORDER BY at_ms, received, key
LIMIT {limit:UInt64}
