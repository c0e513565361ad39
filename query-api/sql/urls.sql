-- A page of URLs, sections, or URLs with agents, by default those with the most events first. `of_host`, `of_name`, `of_platform`,
-- `of_agent` and `of_bot` are the aliases to group by, or `nothing`; the bot is that of events without an agent. A section is a host
-- with the first segment of the path and /*; pages without a second segment belong to the root of their host. Log lines without
-- content are failed fetches and revalidations, not events. Their host has no www., so a URL with and without it is one item. Every
-- row contains the number of rows. An empty page is one row that isn't an item. Types as in summary.sql.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(end -> transform(left(host, end - 1), deciders.1,
        deciders.2, {undecided:Int64}), arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))),
        {never_ms:Int64})) AS owned_since,
    toUUID('00000000-0000-0000-0000-000000000000') AS nobody,
    '' AS nothing,
    owners AS (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above))),
    arrayConcat([('content_retrieved', retrieved, 0), ('content_grounded', grounded, 0), ('content_cited', cited, 0),
        ('content_presented', presented, 0), ('content_engaged', engaged, 0)], arrayZip(others.1, others.2, others.3)) AS all_types,
    arrayPartialSort(of -> (NOT has({known:Array(String)}, of.1), -of.3, -of.2, of.1), {most_types:UInt64},
        arrayFilter(of -> of.2 > 0, all_types)) AS ordered_types,
    arraySlice(ordered_types, 1, {most_types:UInt64}) AS by_type
SELECT total, toUInt8(place >= {offset:UInt64}) AS is_item, name AS url, platform_id AS platform, one_agent AS agent, one_bot AS bot,
    events, unique_sessions, by_type.1 AS types, by_type.2 AS per_type,
    arraySum(of -> of.2, arraySlice(ordered_types, {most_types:UInt64} + 1)) AS other_types,
    fetched, failed, revalidated, grounded, cited, presented, engagements, visits, last_ms
FROM (
    SELECT *, rowNumberInAllBlocks() AS place
    FROM (
        SELECT *, count() OVER () AS total, multiIf(
            host != '', concat('https://', arrayStringConcat(arrayReverse(splitByChar('.', host)), '.'), '/',
                if(part = '', '', concat(substring(part, 2), '*'))),
            is_www, concat('https://www.', substring(part, 9)), part) AS name
        FROM (
            SELECT host, part, platform_id, one_agent, one_bot, max(has_www) AS is_www,
                countIf(is_event) AS events, uniqExactArrayIf(sessions, is_told) AS unique_sessions,
                countIf(type = 'content_retrieved') AS retrieved, countIf(outcome = 'fetch') AS fetched,
                countIf(outcome = 'failed') AS failed, countIf(outcome = 'revalidation') AS revalidated,
                countIf(type = 'content_grounded') AS grounded, countIf(type = 'content_cited') AS cited,
                countIf(type = 'content_presented') AS presented, countIf(type = 'content_engaged') AS engaged,
                countIf(is_visit) AS visits, countIf(type = 'content_engaged' AND NOT is_visit) AS engagements,
                -- Maps are slow to aggregate, so common types have columns and the map has only the others: all events, and the owner's.
                sumMapIf([toString(type)], [toUInt64(1)], [toUInt64(is_owners)], is_event AND type NOT IN ('content_retrieved',
                    'content_grounded', 'content_cited', 'content_presented', 'content_engaged')) AS others,
                toUnixTimestamp64Milli(max(at)) AS last_ms
            FROM (
                WITH
                    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                    is_claim AND (is_told OR role = 1) AS is_agents,
                    multiIf(NOT is_agents, nobody, is_told, platform, organization) AS agent_platform,
                    if(is_agents AND is_told, toString(agent), '') AS agent_name, if(is_agents, '', toString(bot)) AS bot_name,
                    startsWith(url, 'https://www.') AS has_www, if(has_www, concat('https://', substring(url, 13)), url) AS page,
                    substring(path(url), 1, position(path(url), '/', 2)) AS section
                SELECT {of_host:Identifier} AS host, {of_name:Identifier} AS part, {of_platform:Identifier} AS platform_id,
                    {of_agent:Identifier} AS one_agent, {of_bot:Identifier} AS one_bot, has_www, at, type, outcome, 1 AS is_event,
                    organization = {owner_id:UUID} AS is_owners, is_told,
                    type = 'content_engaged' AND link_site = '' AND platform != organization AS is_visit,
                    if(empty(other_agents.session), if(session = 0, [], [session]),
                        arrayFilter(one -> one != 0, arrayPushFront(other_agents.session, session))) AS sessions
                FROM events FINAL
                WHERE site IN owners
                    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) AS at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
                    AND NOT startsWith(type, 'turn_')
                    -- filters.sql
                UNION ALL
                SELECT host, part, nobody, '', one_bot, 0, at, toLowCardinality(''), outcome, 0, 0, 0, 0, emptyArrayUInt64()
                FROM (
                WITH toString(bot) AS bot_name, substring(path, 1, position(path, '/', 2)) AS section,
                    concat('https://', arrayStringConcat(arrayReverse(splitByChar('.', site)), '.'), path) AS page
                SELECT {of_host:Identifier} AS host, {of_name:Identifier} AS part, {of_bot:Identifier} AS one_bot, at, outcome
                FROM failed_fetches FINAL
                WHERE site IN owners
                    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                    AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) AS at_ms >= {dated_ms:Int64} OR at_ms >= owned_since(site), 1)
                    -- filters_lines.sql
                SETTINGS do_not_merge_across_partitions_select_final = 0
                )
            ) GROUP BY host, part, platform_id, one_agent, one_bot
        ) ORDER BY if({is_descending:UInt8}, NULL, {sort:Identifier}) ASC, if({is_descending:UInt8}, {sort:Identifier}, NULL) DESC,
            events DESC, name, toString(platform_id), one_agent, one_bot
        LIMIT {through:UInt64}
)) WHERE place = 0 OR place >= {offset:UInt64} ORDER BY place
