-- Fetches by bot, in three parts that read one snapshot of events:
-- 1. Bots with their fetches and refused requests by status, with an empty name for fetches without a bot. A bot's facts come from
--    the first report that names one.
-- 2. Agents (`is_agent`), with their claims and the clicks that they led to. Claims count as in corroboration.sql.
-- 3. Bots with the log lines whose request returned no content.
-- Status 0 is unknown for a fetch; for a refused request it means that there was no response.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(end -> transform(left(host, end - 1), deciders.1,
        deciders.2, {undecided:Int64}), arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))),
        {never_ms:Int64})) AS owned_since,
    toUUID('00000000-0000-0000-0000-000000000000') AS nobody,
    CAST([], 'Array(Tuple(UInt16, UInt64))') AS no_statuses,
    owners AS (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
SELECT
    toUInt8(0) AS is_agent, toString(operator) AS operator_name, toString(bot) AS bot_name, toString(purpose) AS purpose_name,
    toInt8(verified) AS verified_code,
    groupArrayIf((one_status, requests), is_fetch) AS statuses,
    groupArrayIf((one_status, requests), NOT is_fetch) AS refused,
    sumIf(requests, is_fetch) AS retrievals, sumIf(sent, is_fetch) AS bytes_sent, sumIf(both, is_fetch) AS corroborated,
    maxIf(last, is_fetch) AS last_ms, nobody AS agent_platform, '' AS agent_name, toUInt64(0) AS claimed, toUInt64(0) AS confirmed,
    toUInt64(0) AS cited, toUInt64(0) AS presented, toUInt64(0) AS clicks
FROM (
    WITH link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told
    SELECT operator, bot, purpose, verified, status AS one_status, outcome = 'fetch' AS is_fetch, count() AS requests,
        sum(bytes) AS sent, countIf(is_claimed AND (is_told OR role = 1) AND is_seen) AS both, toUnixTimestamp64Milli(max(at)) AS last
    FROM events FINAL
    WHERE site IN owners
        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) AS at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
        AND type = 'content_retrieved'
        -- filters.sql
    GROUP BY operator, bot, purpose, verified, one_status, is_fetch
)
GROUP BY operator, bot, purpose, verified
UNION ALL
SELECT 1, '', '', '', toInt8(0), no_statuses, no_statuses, 0, 0, 0, 0, platform_id, agent_name, claimed, confirmed, cited, presented, clicks
FROM (
    WITH
        link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
        outcome = 'fetch' AND is_claimed AND (is_told OR role = 1) AS has_claim,
        is_claim AND (is_told OR role = 1) AS is_agents,
        -- A click uses another organization's token and leads to the host of the token's link.
        type = 'content_engaged' AND link_site = '' AND platform != organization AS is_click
    SELECT
        multiIf(is_click, platform, NOT is_agents, nobody, is_told, platform, organization) AS platform_id,
        if(is_click OR (is_agents AND is_told), toString(agent), '') AS agent_name,
        countIf(has_claim) AS claimed, countIf(has_claim AND is_seen) AS confirmed, countIf(type = 'content_cited') AS cited,
        countIf(type = 'content_presented') AS presented, countIf(is_click) AS clicks
    FROM events FINAL
    WHERE site IN owners
        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) AS at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
        AND (is_click OR type IN ('content_cited', 'content_presented') OR has_claim)
        -- filters.sql
    GROUP BY platform_id, agent_name
)
UNION ALL
SELECT 0, toString(operator), toString(bot), toString(purpose), toInt8(verified), no_statuses, groupArray((one_status, requests)),
    0, 0, 0, 0, nobody, '', 0, 0, 0, 0, 0
FROM (
    SELECT operator, bot, purpose, verified, status AS one_status, count() AS requests
    FROM failed_fetches FINAL
    WHERE site IN owners
        AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) AS at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
        -- filters_lines.sql
    GROUP BY operator, bot, purpose, verified, one_status
    -- Partitions can contain copies of a line.
    SETTINGS do_not_merge_across_partitions_select_final = 0
)
GROUP BY operator, bot, purpose, verified
