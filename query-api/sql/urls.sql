-- A page of URLs, or of URLs with agents, by default those with the most events first. `of_platform`, `of_agent` and `of_bot` are
-- aliases of the agent, or of empty values; the bot is that of events without an agent. Every row contains the number of rows. An
-- empty page is one row that isn't an item. Types as in summary.sql.
WITH
    arrayConcat(
        [('content_retrieved', retrieved, 0), ('content_grounded', grounded, 0), ('content_cited', cited, 0),
            ('content_presented', presented, 0), ('content_engaged', engaged, 0)],
        arrayZip(others.1, others.2, others.3)) AS all_types,
    arrayPartialSort(of -> (NOT has({known:Array(String)}, of.1), -of.3, -of.2, of.1), {most_types:UInt64},
        arrayFilter(of -> of.2 > 0, all_types)) AS ordered_types,
    arraySlice(ordered_types, 1, {most_types:UInt64}) AS by_type
SELECT
    total,
    toUInt8(place >= {offset:UInt64}) AS is_item,
    name AS url, platform_id AS platform, one_agent AS agent, one_bot AS bot,
    events,
    unique_sessions,
    by_type.1 AS types,
    by_type.2 AS per_type,
    arraySum(of -> of.2, arraySlice(ordered_types, {most_types:UInt64} + 1)) AS other_types,
    last_ms
FROM (
    SELECT *, rowNumberInAllBlocks() AS place
    FROM (
        SELECT *, count() OVER () AS total
        FROM (
            WITH
                (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                    end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                    arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
                link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                toUUID('00000000-0000-0000-0000-000000000000') AS nobody,
                '' AS nothing,
                is_claim AND (is_told OR role = 1) AS is_agents,
                multiIf(NOT is_agents, nobody, is_told, platform, organization) AS agent_platform,
                if(is_agents AND is_told, toString(agent), '') AS agent_name,
                if(is_agents, '', toString(bot)) AS bot_name,
                type IN ('content_retrieved', 'content_grounded', 'content_cited', 'content_presented', 'content_engaged') AS is_step,
                if(empty(other_agents.session), if(session = 0, [], [session]),
                    arrayFilter(one -> one != 0, arrayPushFront(other_agents.session, session))) AS sessions
            SELECT
                url AS name,
                {of_platform:Identifier} AS platform_id, {of_agent:Identifier} AS one_agent, {of_bot:Identifier} AS one_bot,
                count() AS events,
                uniqExactArrayIf(sessions, is_told) AS unique_sessions,
                countIf(type = 'content_retrieved') AS retrieved,
                countIf(type = 'content_grounded') AS grounded,
                countIf(type = 'content_cited') AS cited,
                countIf(type = 'content_presented') AS presented,
                countIf(type = 'content_engaged') AS engaged,
                -- Counting in a map is slow, so it contains only the other types, with their events and those of the owner.
                sumMapIf([toString(type)], [toUInt64(1)], [toUInt64(organization = {owner_id:UUID})], NOT is_step) AS others,
                toUnixTimestamp64Milli(max(at)) AS last_ms
            FROM events FINAL
            WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                    OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                AND NOT startsWith(type, 'turn_')
                -- filters.sql
            GROUP BY url, platform_id, one_agent, one_bot
        )
        -- One of the two is constant.
        ORDER BY
            if({is_descending:UInt8}, NULL, {sort:Identifier}) ASC,
            if({is_descending:UInt8}, {sort:Identifier}, NULL) DESC,
            events DESC,
            name, toString(platform_id), one_agent, one_bot
        LIMIT {through:UInt64}
    )
)
WHERE place = 0 OR place >= {offset:UInt64}
ORDER BY place
