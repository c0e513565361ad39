-- A series of events, split by the column or alias `value`. `key` is the bucket (number of `bucket_ms` since 1970), then 1 for
-- a value and 2 for the sum of values that are not listed, owner and name. Listed values are those in `known`, then those with
-- the most events for which the alias `own` is 1, then those with the most events, up to `most`. Every row also contains the
-- extent: first and last bucket, number of values, longest name and number of cells.
SELECT
    key,
    sum(some_events) AS events,
    uniqExactArrayIfMerge(some_sessions) AS sessions,
    toUInt64(0) AS clicks,
    min(key.1) OVER () AS first_bucket,
    max(key.1) OVER () AS last_bucket,
    uniqExact(key.2, key.3, key.4) OVER () AS value_count,
    max(length(key.3) + length(key.4)) OVER () AS longest_name,
    count() OVER () AS cell_count
FROM (
    SELECT
        if(place > {most:UInt64}, (cell.1, 2, '', ''), (cell.1, 1, '', toString(value))) AS key,
        cell.2 AS some_events,
        cell.3 AS some_sessions
    FROM (
        SELECT
            value,
            groupArray((one_bucket, one_events, one_sessions)) AS cells,
            row_number() OVER (ORDER BY has({known:Array(String)}, value) DESC, sum(own_events) DESC, sum(one_events) DESC, value)
                AS place
        FROM (
            WITH
                (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
                host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
                    end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
                    arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
                '' AS nothing,
                toUInt8(0) AS is_nobodys,
                organization = {owner_id:UUID} AS is_owners,
                if(verified = 'unknown', '', toString(verified)) AS verified_name,
                toString(signature) AS signature_name,
                if(status = 0, '', toString(status)) AS status_name,
                link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
                ['', 'claimed', 'observed', 'corroborated'][1 + ((is_claimed OR is_claim) AND (is_told OR role = 1))
                    + 2 * (is_seen OR (role IN (2, 3) AND NOT is_claimed))] AS own_evidence,
                -- A signed event counts once more.
                arrayJoin(if(signature = 'valid', [own_evidence, 'signed'], [own_evidence])) AS evidence,
                if(is_claim AND (is_told OR role = 1), if(is_told, toString(agent), ''), toString(bot)) AS agent_or_bot,
                if(empty(other_agents.session), if(session = 0, [], [session]),
                    arrayFilter(one -> one != 0, arrayPushFront(other_agents.session, session))) AS sessions
            SELECT
                intDiv(toUnixTimestamp64Milli(at), {bucket_ms:Int64}) AS one_bucket,
                {value:Identifier} AS value,
                count() AS one_events,
                countIf({own:Identifier}) AS own_events,
                uniqExactArrayIfState(sessions, is_told) AS one_sessions
            FROM events FINAL
            WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
                HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
                AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                AND if({is_dated:UInt8}, toUnixTimestamp64Milli(at) >= {dated_ms:Int64}
                    OR toUnixTimestamp64Milli(at) >= owned_since(site), 1)
                AND NOT startsWith(type, 'turn_')
                -- filters.sql
            GROUP BY one_bucket, value
        )
        GROUP BY value
    )
    ARRAY JOIN cells AS cell
)
GROUP BY key
ORDER BY key
