-- The first half of reconciliation.sql: an owner's fetches with what agents claim and servers saw. Contains whole days around the
-- period, and all fetches whatever the filters are, so that a finding depends on neither.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    (SELECT (groupArray(agent), groupArray(operator)) FROM agent_operators) AS agents,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
    link_site = '' OR toUnixTimestamp64Milli(at) >= owned_since(link_site) AS is_told,
    toUUID('00000000-0000-0000-0000-000000000000') AS nobody, '' AS nothing,
    (toUInt128(0), '', toInt64(0), toUInt128(0)) AS no_event,
    (as_role, in_session) -> as_role = 1 OR (as_role = 0 AND in_session != 0) AS claims,
    fetches AS (
        SELECT site, key, at, organization, reports.at[representative] AS reported_at, toUnixTimestamp64Milli(at) AS ms, url,
            if(reports.identity[representative] = 0, key, reports.identity[representative]) AS identity, outcome, operator,
            is_claimed AND (is_told OR role = 1) AS has_claim,
            -- The two bits contain the result for the signature; 1 is invalid (store/src/tables/encode.rs).
            arrayExists(of -> bitAnd(bitShiftRight(reinterpretAsUInt8(of), 2), 3) = 1, reports.details) AS has_bad_signature,
            if(is_claim, representative, arrayFirstIndex(claims, reports.role, reports.session)) AS claim,
            toUnixTimestamp64Milli(reports.at[claim]) AS claim_ms, leftUTF8(toString(reports.agent[claim]), 200) AS named,
            if(is_told, reports.platform[claim], reports.organization[claim]) AS named_by,
            arrayFilter((by, as_role, in_session) -> claims(as_role, in_session), reports.organization, reports.role, reports.session)
                AS claimants,
            arrayFilter(report -> report.3 IN (2, 3) AND NOT has(claimants, report.2),
                arrayZip(reports.at, reports.organization, reports.role)) AS sightings,
            is_seen AS has_server, arrayExists(report -> report.2 IN {observers:Array(UUID)}, sightings) AS is_covering,
            is_told AS may_name,
            if(has_claim AND is_told, transform(named, agents.1, agents.2, ''), '') AS of_agent,
            (1
            -- filters.sql
            ) AS is_asked
        FROM events FINAL
        WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
            HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
            AND at >= fromUnixTimestamp64Milli({scan_from_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({scan_until_ms:Int64}, 'UTC')
            AND if({is_dated:UInt8}, ms >= {dated_ms:Int64} OR ms >= owned_since(site), 1)
            AND type = 'content_retrieved'
    ),
    -- Correlation id of fetches that only one side reports.
    identified AS (
        SELECT organization AS by_organization, at AS by_at, identity AS by_identity, any(group_key) AS shared_key,
            any(content_telemetry_id) AS id
        FROM reports
        WHERE (organization, at, identity) IN
            (SELECT organization, reported_at, identity FROM fetches WHERE has_claim != has_server)
        GROUP BY by_organization, by_at, by_identity
    ),
    -- Log lines without content, each in the slots of two seconds that are at most two seconds away.
    lines AS (
        SELECT site AS on_site, path AS on_path, operator AS by_operator,
            arrayJoin([-1, 0, 1]) + intDiv(toUnixTimestamp64Milli(at), 2000) AS slot,
            groupUniqArray((toUnixTimestamp64Milli(at), toUInt8(status = 304), organization)) AS times
        FROM failed_fetches FINAL
        WHERE site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts))
            AND at >= fromUnixTimestamp64Milli({scan_from_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({scan_until_ms:Int64}, 'UTC')
        GROUP BY on_site, on_path, by_operator, slot
        SETTINGS do_not_merge_across_partitions_select_final = 0
    ),
    covered AS (
        SELECT on_site AS site, intDiv(line.1, 3600000) AS hour FROM lines ARRAY JOIN times AS line
        WHERE line.3 IN {observers:Array(UUID)}
        UNION DISTINCT
        SELECT site, hour FROM sites INNER JOIN drain_hours ON above = drain_hours.host
    )
