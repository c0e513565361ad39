-- What other organizations reported with the click tokens of a session, in order of acceptance. Reporters can't choose that
-- order, so later clicks can't displace earlier ones. Places and versions as in session_document.sql. Returns only the named
-- members of `data` and only short values.
SELECT key, site, event_type, at_ms, role, agent_id, content_url, content_id, content_telemetry_id, event_id, turn_id,
    output_id, data, extra
FROM (
    SELECT
        identity AS key,
        toString(site) AS site,
        toString(type) AS event_type,
        toUnixTimestamp64Milli(at) AS at_ms,
        source_role AS role,
        '' AS agent_id,
        url AS content_url,
        '' AS content_id,
        '' AS content_telemetry_id,
        '' AS event_id,
        '' AS turn_id,
        '' AS output_id,
        JSONExtractKeysAndValuesRaw(reports.data) AS members,
        arrayFilter(member -> has({members:Array(String)}, member.1) AND length(member.2) <= {max_bytes:UInt64}, members) AS shown,
        -- ClickHouse can't parse some JSON, such as numbers of more than 64 bits. Then the whole value is returned.
        if(
            empty(members),
            reports.data,
            concat('{', arrayStringConcat(arrayMap(member -> concat('"', member.1, '":', member.2), shown), ','), '}')
        ) AS data,
        '' AS extra,
        received,
        is_issuers,
        session,
        is_deleted
    FROM reports
    WHERE (organization, at, identity) IN (
        SELECT organization, at, identity
        FROM reports
        WHERE organization = {organization:UUID} AND session = {session:UUID} AND is_issuers = 1
    )
    ORDER BY version DESC
    LIMIT 1 BY organization, at, identity
)
WHERE is_deleted = 0 AND is_issuers = 1 AND session = {session:UUID}
ORDER BY received, key
LIMIT {limit:UInt64}
