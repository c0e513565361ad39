-- The reports and bots' log lines of an owner's month for its evidence file, sorted by event and acceptance. Contains all reports of
-- each event in the month, whatever their own times. Copies are merged, and `first_key` to `last_key` selects a part of the events.
WITH
    (SELECT (groupArray(host), groupArray(since)) FROM owner_hosts) AS deciders,
    host -> arrayFirst(since -> since != {undecided:Int64}, arrayPushBack(arrayMap(
        end -> transform(left(host, end - 1), deciders.1, deciders.2, {undecided:Int64}),
        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', host)))), {never_ms:Int64})) AS owned_since,
    own AS (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above))),
    -- Events whose reports share a key. An identity is stored as 0 if it equals the event's key, which a shared key never does.
    joined AS (SELECT reports.organization, reports.at, reports.identity FROM events FINAL
        WHERE site IN own AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            AND key BETWEEN {first_key:UInt128} AND {last_key:UInt128} AND reports.identity[1] != 0),
    -- Events with a single report, because its observer had used the correlation ID before.
    separate AS (SELECT key FROM events FINAL
        WHERE site IN own AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC') AND key IN (SELECT identity FROM reports FINAL
                WHERE organization IN (SELECT id FROM reporters) AND site IN own AND group_key != 0
                    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
                    AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
                    AND identity BETWEEN {first_key:UInt128} AND {last_key:UInt128}))
SELECT * FROM (
    -- A session of a click on another host belongs to the owner of the link's host.
    WITH multiIf(link != 'other', 1, reports.link_site = '', 0, at_ms >= owned_since(reports.link_site)) AS is_told
    SELECT
        toUInt8(0) AS is_line,
        toUInt8(group_key != 0 AND identity NOT IN separate) AS is_joined,
        if(is_joined, group_key, identity) AS event_key,
        identity, received, organization, drain, role, toString(type) AS event_type,
        toUnixTimestamp64Milli(at) AS at_ms,
        if({is_dated:UInt8}, owned_since(site), {first_ms:Int64}) AS visible_from_ms,
        arrayStringConcat(arrayReverse(splitByChar('.', toString(site))), '.') AS host,
        url, content_id, JSONExtractString(data, 'license_ref') AS license,
        if(is_told, session, toUUID('00000000-0000-0000-0000-000000000000')) AS shown_session,
        platform, if(is_told, toString(agent), '') AS shown_agent,
        if(output_id != '', output_id, turn_id) AS response,
        toUInt8(type = 'content_engaged' AND link != 'other' AND platform != organization) AS is_click,
        toString(bot) AS bot_name, toString(operator) AS bot_operator, status,
        toUInt8(bot != '' OR operator != '' OR purpose != '' OR verified != 'unknown' OR status != 0 OR bytes != 0) AS has_fetch,
        toString(signature) AS verdict
    FROM reports FINAL
    WHERE organization IN (SELECT id FROM reporters) AND site IN own
        AND ((at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC'))
            OR (organization, at, identity) IN (SELECT * FROM joined ARRAY JOIN reports.organization, reports.at, reports.identity))
        AND (identity IN (SELECT arrayJoin(reports.identity) FROM joined) OR identity IN separate
            OR (group_key = 0 AND identity BETWEEN {first_key:UInt128} AND {last_key:UInt128}))
        AND is_issuers = 0 AND received < {closed:UInt64} AND NOT startsWith(type, 'turn_')
    UNION ALL
    SELECT * FROM (
        SELECT
            toUInt8(1), toUInt8(0), identity AS event_key, identity AS line_identity,
            toUInt64(18446744073709551615 - precedence) AS received, organization, drain, toUInt8(3), 'content_retrieved',
            toUnixTimestamp64Milli(at), if({is_dated:UInt8}, owned_since(site), {first_ms:Int64}),
            arrayStringConcat(arrayReverse(splitByChar('.', site)), '.') AS host,
            concat('https://', host, path), '', '', toUUID('00000000-0000-0000-0000-000000000000'), organization, '', '',
            toUInt8(0), toString(bot), toString(operator), status, toUInt8(1), 'none'
        FROM failed_fetches FINAL
        WHERE site IN own AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
            AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
            AND identity BETWEEN {first_key:UInt128} AND {last_key:UInt128}
        -- Partitions can contain copies of a line.
        SETTINGS do_not_merge_across_partitions_select_final = 0
    )
    WHERE received < {closed:UInt64}
)
ORDER BY event_key, received, identity
