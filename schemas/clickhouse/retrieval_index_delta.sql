-- Puts every report into the index in the insert that stores it, whoever inserts: the rows of `observations` are there first, and an
-- insert whose rows cannot be put into the index is refused; repeated under its token it does the rest.
CREATE MATERIALIZED VIEW IF NOT EXISTS retrieval_index_delta TO retrieval_index AS
SELECT
    'delta' AS tier, site, at AS placed_at,
    toUInt64(event_key) AS key_low, toUInt64(bitShiftRight(event_key, 64)) AS key_high,
    org_id AS delta_org, observer AS delta_observer, version AS revision,
    if(source_role = '', 5, toUInt8(source_role)) AS rank,
    bitNot(version) AS received,
    toUInt128(org_id) AS org, observer,
    if(source_role = '' AND event_type IN ('content_grounded', 'content_cited', 'content_presented', 'content_engaged', 'turn_started', 'turn_completed'), 1, toUInt8(source_role)) AS role,
    at, event_type, content_url AS url,
    if(session_id = toUUID('00000000-0000-0000-0000-000000000000'), 0, greatest(1, sipHash64(platform_id, session_id))) AS session,
    platform_id AS platform, agent_id AS agent,
    if(link != 'other', '', if(link_site = '', '-', link_site)) AS link_site
FROM observations
WHERE site != ''
