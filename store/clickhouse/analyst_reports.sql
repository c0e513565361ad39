-- Like `analytics.events`, with one row per observer of an event.
CREATE OR REPLACE VIEW analytics.reports
(
    at                DateTime64(3, 'UTC') COMMENT 'time of the event',
    day               Date COMMENT 'UTC day of at',
    host              String COMMENT 'canonical host of the page',
    site              String COMMENT 'host with its labels reversed, com.example.blog; conditions on it are fast, startsWith covers subdomains',
    content_url       String COMMENT 'URL of the event',
    event_type        LowCardinality(String) COMMENT 'content_retrieved, content_grounded, content_cited, …',
    source_role       LowCardinality(String) COMMENT 'role of this report: agent, edge, origin or index; empty if unknown',
    platform_id       UUID COMMENT 'organization of the agent behind this report; all zero if there is none and another report represents the event',
    agent_id          String COMMENT 'agent as that organization names it; empty if unknown or hidden',
    is_representing   UInt8 COMMENT '1 for the report that represents its event: the sum counts events',
    is_first_of_role  UInt8 COMMENT '1 for one report of each role of its event: the sum by source_role counts each event once',
    is_first_of_agent UInt8 COMMENT '1 for one report of each agent of its event: the sum by platform_id and agent_id counts each event once',
    signature         LowCardinality(String) COMMENT 'of this report, or of the fetch in its log line: valid, invalid or none'
)
DEFINER = telemetry_analyst_views SQL SECURITY DEFINER
AS
SELECT
    at,
    day,
    host,
    site,
    content_url,
    event_type,
    transform(one_role, [1, 2, 3, 4], ['agent', 'edge', 'origin', 'index'], '') AS source_role,
    one_platform AS platform_id,
    one_agent AS agent_id,
    toUInt8(position = representative) AS is_representing,
    toUInt8(nth_of_role = 1) AS is_first_of_role,
    toUInt8(is_agents AND nth_of_agent = 1) AS is_first_of_agent,
    ['none', 'invalid', 'valid'][1 + bitAnd(bitShiftRight(reinterpretAsUInt8(one_details), 2), 3)] AS signature
FROM (
    WITH
        toUUID('00000000-0000-0000-0000-000000000000') AS nobody,
        (
            SELECT (arrayPushBack(groupArray(site), '-'), arrayPushBack(groupArray(since), 0))
            FROM analyst_sites
            WHERE since > 0
        ) AS late,
        link_site = '' OR (link_site IN (SELECT site FROM analyst_sites)
            AND toUnixTimestamp64Milli(events.at) + 2208988800000 >= transform(link_site, late.1, late.2, toInt64(0))) AS is_told
    SELECT
        events.at AS at,
        toDate(events.at) AS day,
        arrayStringConcat(arrayReverse(splitByChar('.', events.site)), '.') AS host,
        events.site AS site,
        url AS content_url,
        type AS event_type,
        representative,
        reports.role AS all_roles,
        -- The first byte contains the result for the signature (store/src/tables/encode.rs).
        reports.details AS all_details,
        arrayEnumerate(all_roles) AS positions,
        arrayMap((n, one, session) -> one = 1 OR (session != 0 AND (n != representative OR is_told)),
            positions, all_roles, reports.session) AS are_agents,
        -- Hide which organization's server saw an event that another report represents.
        arrayMap((n, is_agent, one) -> multiIf(n = representative, if(is_told, platform, organization), is_agent, one, nobody),
            positions, are_agents, reports.platform) AS all_platforms,
        arrayMap((n, is_agent, one) -> multiIf(n = representative, if(is_told, toString(agent), ''), is_agent, toString(one), ''),
            positions, are_agents, reports.agent) AS all_agents
    FROM events FINAL
)
ARRAY JOIN
    positions AS position,
    all_roles AS one_role,
    all_details AS one_details,
    all_platforms AS one_platform,
    all_agents AS one_agent,
    are_agents AS is_agents,
    arrayEnumerateUniq(all_roles) AS nth_of_role,
    arrayEnumerateUniq(are_agents, all_platforms, all_agents) AS nth_of_agent
SETTINGS do_not_merge_across_partitions_select_final = 1, optimize_move_to_prewhere_if_final = 0, use_query_condition_cache = 0,
    use_skip_indexes_if_final = 0, enable_shared_storage_snapshot_in_query = 1
