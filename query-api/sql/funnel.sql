-- A page of a funnel: content events by agent, URL or day. `name` and `owner` are the columns or aliases to group by; `usual`
-- sorts equal items. Rows as in urls.sql.
SELECT total, toUInt8(place >= {offset:UInt64}) AS is_item, platform_id AS platform, name, retrieved, grounded, cited, presented, engaged
FROM (
    SELECT *, rowNumberInAllBlocks() AS place
    FROM (
        SELECT *, toString(one_name) AS name, toString(platform_id) AS platform_name, count() OVER () AS total
        FROM (
            WITH
                (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                    end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                    arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
                toUUID('00000000-0000-0000-0000-000000000000') AS nobody,
                link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                is_claim AND (is_told OR role = 1) AS is_agents,
                multiIf(NOT is_agents, nobody, is_told, platform, organization) AS agent_platform,
                if(is_agents AND is_told, toString(agent), '') AS agent_name,
                toDate(at) AS day
            SELECT
                {owner:Identifier} AS platform_id,
                {name:Identifier} AS one_name,
                count() AS whole,
                countIf(type = 'content_retrieved') AS retrieved,
                countIf(type = 'content_grounded') AS grounded,
                countIf(type = 'content_cited') AS cited,
                countIf(type = 'content_presented') AS presented,
                countIf(type = 'content_engaged') AS engaged
            FROM events FINAL
            WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                    OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                AND type IN ('content_retrieved', 'content_grounded', 'content_cited', 'content_presented', 'content_engaged')
                -- filters.sql
            GROUP BY platform_id, one_name
        )
        ORDER BY
            if({is_descending:UInt8}, NULL, {sort:Identifier}) ASC,
            if({is_descending:UInt8}, {sort:Identifier}, NULL) DESC,
            {usual:Identifier} DESC,
            platform_name,
            name
        LIMIT {through:UInt64}
    )
)
WHERE place = 0 OR place >= {offset:UInt64}
ORDER BY place
