-- A page of a funnel: content events by agent, URL or day. `owner`, `name` and `of_bot` are the columns or aliases to group by;
-- `usual` sorts equal items. Rows, log lines and URLs as in urls.sql.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(end -> transform(left(host, end - 1), deciders.1,
        deciders.2, {undecided:Int64}), arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))),
        {never_ms:Int64})) AS owned_since,
    toUUID('00000000-0000-0000-0000-000000000000') AS nobody,
    '' AS nothing,
    owners AS (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
SELECT total, toUInt8(place >= {offset:UInt64}) AS is_item, platform_id AS platform, name, one_bot AS bot,
    retrieved, fetched, failed, revalidated, grounded, cited, presented, engaged, engagements, visits
FROM (
    SELECT *, rowNumberInAllBlocks() AS place
    FROM (
        SELECT *, if(is_www, concat('https://www.', substring(one_name, 9)), one_name) AS name, toString(platform_id) AS platform_name,
            count() OVER () AS total
        FROM (
            SELECT
                platform_id,
                one_name,
                one_bot,
                max(has_www) AS is_www,
                countIf(is_event) AS whole,
                countIf(type = 'content_retrieved') AS retrieved,
                countIf(outcome = 'fetch') AS fetched,
                countIf(outcome = 'failed') AS failed,
                countIf(outcome = 'revalidation') AS revalidated,
                countIf(type = 'content_grounded') AS grounded,
                countIf(type = 'content_cited') AS cited,
                countIf(type = 'content_presented') AS presented,
                countIf(type = 'content_engaged') AS engaged,
                countIf(type = 'content_engaged' AND NOT is_visit) AS engagements,
                countIf(is_visit) AS visits
            FROM (
                WITH
                    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                    is_claim AND (is_told OR role = 1) AS is_agents,
                    multiIf(NOT is_agents, nobody, is_told, platform, organization) AS agent_platform,
                    if(is_agents AND is_told, toString(agent), '') AS agent_name,
                    if(is_agents, '', toString(bot)) AS bot_name,
                    startsWith(url, 'https://www.') AS starts_with_www,
                    if(starts_with_www, concat('https://', substring(url, 13)), url) AS page,
                    toDate(at) AS day
                SELECT {owner:Identifier} AS platform_id, toString({name:Identifier}) AS one_name, {of_bot:Identifier} AS one_bot,
                    {by_url:UInt8} AND starts_with_www AS has_www, type, outcome, 1 AS is_event,
                    type = 'content_engaged' AND link_site = '' AND platform != organization AS is_visit
                FROM events FINAL
                WHERE site IN owners
                    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) AS at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
                    AND type IN ('content_retrieved', 'content_grounded', 'content_cited', 'content_presented', 'content_engaged')
                    -- filters.sql
                UNION ALL
                SELECT nobody, one_name, one_bot, 0, toLowCardinality(''), outcome, 0, 0
                FROM (
                WITH toString(bot) AS bot_name, toDate(at) AS day, '' AS agent_name,
                    concat('https://', arrayStringConcat(arrayReverse(splitByChar('.', site)), '.'), path) AS page
                SELECT toString({name:Identifier}) AS one_name, {of_bot:Identifier} AS one_bot, outcome
                FROM failed_fetches FINAL
                WHERE site IN owners
                    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) AS at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
                    -- filters_lines.sql
                SETTINGS do_not_merge_across_partitions_select_final = 0
                )
            ) GROUP BY platform_id, one_name, one_bot
        ) ORDER BY if({is_descending:UInt8}, NULL, {sort:Identifier}) ASC, if({is_descending:UInt8}, {sort:Identifier}, NULL) DESC,
            {usual:Identifier} DESC, platform_name, name, one_bot
        LIMIT {through:UInt64}
)) WHERE place = 0 OR place >= {offset:UInt64} ORDER BY place
