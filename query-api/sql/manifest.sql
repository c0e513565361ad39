-- The events of a session for a click manifest: grounded, cited and presented content, and turns for their privacy level.
-- Places and versions as in session_document.sql. Returns only the named members of `data` and the level of a turn, and only
-- short values, because the stored ones may be a thousand times as long.
SELECT key, site, event_type, at_ms, role, agent_id, content_url, content_id, content_telemetry_id, event_id, turn_id,
    output_id, data, extra
FROM (
    SELECT
        identity AS key,
        toString(site) AS site,
        toString(type) AS event_type,
        startsWith(type, 'turn_') AS is_turn,
        toUnixTimestamp64Milli(at) AS at_ms,
        source_role AS role,
        '' AS agent_id,
        url AS content_url,
        '' AS content_id,
        '' AS content_telemetry_id,
        '' AS event_id,
        turn_id,
        output_id,
        JSONExtractKeysAndValuesRaw(reports.data) AS members,
        arrayFilter(member -> has({members:Array(String)}, member.1) AND length(member.2) <= {max_bytes:UInt64}, members) AS shown,
        -- ClickHouse can't parse some JSON, such as numbers of more than 64 bits. Then the whole value is returned.
        multiIf(
            is_turn, '',
            empty(members), reports.data,
            concat('{', arrayStringConcat(arrayMap(member -> concat('"', member.1, '":', member.2), shown), ','), '}')
        ) AS data,
        JSONExtractRaw(reports.extra, 'turn', 'privacy_level') AS level,
        multiIf(
            NOT is_turn, '',
            NOT isValidJSON(reports.extra), reports.extra,
            JSONType(reports.extra, 'turn') != 'Object', '',
            length(level) BETWEEN 1 AND {max_bytes:UInt64}, concat('{"turn":{"privacy_level":', level, '}}'),
            '{"turn":{}}'
        ) AS extra,
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
    AND event_type IN ('content_grounded', 'content_cited', 'content_presented', 'turn_started', 'turn_completed')
ORDER BY at_ms, received, key
LIMIT {limit:UInt64}
