-- A page of sections. A section is a host with the first segment of the path and /*. Pages without a second segment belong to
-- the root of their host. Rows and order as in urls.sql.
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
    name AS url,
    toUUID('00000000-0000-0000-0000-000000000000') AS platform,
    '' AS agent,
    '' AS bot,
    events,
    unique_sessions,
    by_type.1 AS types,
    by_type.2 AS per_type,
    arraySum(of -> of.2, arraySlice(ordered_types, {most_types:UInt64} + 1)) AS other_types,
    last_ms
FROM (
    SELECT *, rowNumberInAllBlocks() AS place
    FROM (
        SELECT
            *,
            concat('https://', arrayStringConcat(arrayReverse(splitByChar('.', host)), '.'), '/',
                if(step = '', '', concat(substring(step, 2), '*'))) AS name,
            count() OVER () AS total
        FROM (
            WITH
                (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                    end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                    arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
                link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                type IN ('content_retrieved', 'content_grounded', 'content_cited', 'content_presented', 'content_engaged') AS is_step,
                if(empty(other_agents.session), if(session = 0, [], [session]),
                    arrayFilter(one -> one != 0, arrayPushFront(other_agents.session, session))) AS sessions
            SELECT
                site AS host,
                -- From the first slash to the second one.
                substring(path(url), 1, position(path(url), '/', 2)) AS step,
                count() AS events,
                uniqExactArrayIf(sessions, is_told) AS unique_sessions,
                countIf(type = 'content_retrieved') AS retrieved,
                countIf(type = 'content_grounded') AS grounded,
                countIf(type = 'content_cited') AS cited,
                countIf(type = 'content_presented') AS presented,
                countIf(type = 'content_engaged') AS engaged,
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
            GROUP BY host, step
        )
        ORDER BY
            if({is_descending:UInt8}, NULL, {sort:Identifier}) ASC,
            if({is_descending:UInt8}, {sort:Identifier}, NULL) DESC,
            events DESC,
            name
        LIMIT {through:UInt64}
    )
)
WHERE place = 0 OR place >= {offset:UInt64}
ORDER BY place
