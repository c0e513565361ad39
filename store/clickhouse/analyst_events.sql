-- Events that an analyst account can read, one row per event. The view runs with the rights of `telemetry_analyst_views`, whose row
-- policy (schemas/clickhouse/analysts.xml) hides other rows before ClickHouse evaluates the statement's own conditions. Conditions
-- on `site`, `at` and `day` use the primary key. Figures equal those of the owner's reads: the rules are the same as in
-- query-api/sql.
CREATE OR REPLACE VIEW analytics.events
(
    at          DateTime64(3, 'UTC') COMMENT 'time of the event',
    day         Date COMMENT 'UTC day of at',
    host        String COMMENT 'canonical host of the page',
    site        String COMMENT 'host with its labels reversed, com.example.blog; conditions on it are fast, startsWith covers subdomains',
    content_url String COMMENT 'URL as reported; empty if none was',
    event_type  LowCardinality(String) COMMENT 'content_retrieved, content_grounded, content_cited, …',
    outcome     LowCardinality(String) COMMENT 'of content_retrieved: fetch, revalidation or failed; empty for other types',
    source_role LowCardinality(String) COMMENT 'role of the report that represents the event: agent, edge, origin or index; empty if unknown',
    observers   Array(String) COMMENT 'roles that reported it: agent, edge, origin, index',
    platform_id UUID COMMENT 'organization whose session it is; without a session, the one that reported it',
    agent_id    String COMMENT 'agent as that organization names it; empty if unknown or hidden',
    claimant_id UUID COMMENT 'organization of the agent under which funnel and corroboration count the event; all zero if none',
    claimed_by  String COMMENT 'that agent as its organization names it; empty if unknown or hidden',
    is_claimed  UInt8 COMMENT 'of content_retrieved: 1 if an agent reports it; if outcome is fetch, this is a claim',
    is_seen     UInt8 COMMENT 'of content_retrieved: 1 if an edge or origin of another organization than the claiming one reports it',
    bot         LowCardinality(String) COMMENT 'bot that the user agent names; empty if none',
    operator    LowCardinality(String) COMMENT 'company that operates the bot',
    purpose     LowCardinality(String) COMMENT 'training, search or user',
    verified    LowCardinality(String) COMMENT 'yes or no: whether the request came from an address that the operator publishes; empty if unknown',
    status      UInt16 COMMENT 'HTTP status; 0 if unknown',
    bytes       UInt64 COMMENT 'bytes of the response; 0 if unknown',
    signature   LowCardinality(String) COMMENT 'of its reports: valid if one is validly signed, else invalid if one is invalidly, else none'
)
DEFINER = telemetry_analyst_views SQL SECURITY DEFINER
AS
WITH
    toUUID('00000000-0000-0000-0000-000000000000') AS nobody,
    ['agent', 'edge', 'origin', 'index'] AS names,
    -- `transform` requires lists that aren't empty, and a hyphen is never a host.
    (SELECT (arrayPushBack(groupArray(site), '-'), arrayPushBack(groupArray(since), 0)) FROM analyst_sites WHERE since > 0) AS late,
    link_site = '' OR (link_site IN (SELECT site FROM analyst_sites)
        AND toUnixTimestamp64Milli(events.at) + 2208988800000 >= transform(link_site, late.1, late.2, toInt64(0))) AS is_told,
    is_claim AND (is_told OR role = 1) AS is_agents
SELECT
    events.at AS at,
    toDate(events.at) AS day,
    arrayStringConcat(arrayReverse(splitByChar('.', events.site)), '.') AS host,
    events.site AS site,
    url AS content_url,
    type AS event_type,
    events.outcome AS outcome,
    transform(role, [1, 2, 3, 4], names, '') AS source_role,
    arrayFilter((name, bit) -> bitTest(roles, bit), names, [1, 2, 3, 4]) AS observers,
    if(is_told, platform, organization) AS platform_id,
    if(is_told, toString(agent), '') AS agent_id,
    multiIf(NOT is_agents, nobody, is_told, platform, organization) AS claimant_id,
    if(is_agents AND is_told, toString(agent), '') AS claimed_by,
    -- A session that the account can't see doesn't make a claim.
    toUInt8(events.is_claimed AND (is_told OR role = 1)) AS is_claimed,
    events.is_seen AS is_seen,
    events.bot AS bot,
    events.operator AS operator,
    events.purpose AS purpose,
    if(events.verified = 'unknown', '', toString(events.verified)) AS verified,
    events.status AS status,
    events.bytes AS bytes,
    toString(events.signature) AS signature
FROM events FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1, optimize_move_to_prewhere_if_final = 0, use_query_condition_cache = 0,
    use_skip_indexes_if_final = 0, enable_shared_storage_snapshot_in_query = 1
