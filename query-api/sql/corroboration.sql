-- A page of corroboration: fetches per day and agent, or per day alone, by whether an agent claims them and whether
-- another organization's server reports them. Rows and order as in urls.sql.
SELECT total, toUInt8(place >= {offset:UInt64}) AS is_item, day, platform_id AS platform, agent, retrievals, both, claimed_only,
    seen_only, neither
FROM (
    SELECT *, rowNumberInAllBlocks() AS place
    FROM (
        SELECT *, toString(date) AS day, agent_id AS agent, toString(platform_id) AS platform_name, count() OVER () AS total
        FROM (
            WITH
                (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                    end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                    arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
                toUUID('00000000-0000-0000-0000-000000000000') AS nobody,
                link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                -- A session that the reader may not see doesn't count as a claim.
                is_claimed AND (is_told OR role = 1) AS has_claim,
                {by_agent:UInt8} AND is_claim AND (is_told OR role = 1) AS is_agents
            SELECT
                toDate(at) AS date,
                multiIf(NOT is_agents, nobody, is_told, platform, organization) AS platform_id,
                if(is_agents AND is_told, toString(agent), '') AS agent_id,
                count() AS retrievals,
                countIf(has_claim AND is_seen) AS both,
                countIf(has_claim AND NOT is_seen) AS claimed_only,
                countIf(NOT has_claim AND is_seen) AS seen_only,
                countIf(NOT has_claim AND NOT is_seen) AS neither
            FROM events FINAL
            WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                    OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                AND outcome = 'fetch'
                -- filters.sql
            GROUP BY date, platform_id, agent_id
        )
        ORDER BY
            if({is_descending:UInt8}, NULL, {sort:Identifier}) ASC,
            if({is_descending:UInt8}, {sort:Identifier}, NULL) DESC,
            date DESC,
            retrievals DESC,
            platform_name,
            agent
        LIMIT {through:UInt64}
    )
)
WHERE place = 0 OR place >= {offset:UInt64}
ORDER BY place
