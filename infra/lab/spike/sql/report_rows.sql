-- Generated rows of `reports` with everything that was reported. reports: 1 returns the first report of each event, 2 the
-- second, 3 all. The other parameters are those of `event_rows`.
CREATE VIEW report_rows AS
WITH
    arrayJoin(multiIf({reports:UInt8} = 1, [1], {reports:UInt8} = 2, [2], is_pair, [1, 2], [1])) AS nth,
    has_agent AND nth = 1 AS by_agent,
    toDateTime(intDiv(accepted_ms, 1000), 'UTC') AS accepted
SELECT
    number,
    reinterpretAsUUID(if(by_agent, agent_org, server_org)) AS organization,
    at + toIntervalMillisecond(if(nth = 2, draw, 0)) AS at,
    multiIf(nth = 2, second_identity, identity = 0, event, identity) AS key,
    toUInt32(if({home_by:String} = 'bucket', toYYYYMM(accepted) * 100 + is_large, toYYYYMM(accepted))) AS home,
    site,
    event_place,
    event,
    toUInt8(type) AS type,
    toUInt8(if(by_agent, 2, server_role)) AS role,
    toUInt32(if(by_agent, 0, 1)) AS drain,
    if(by_agent, agent, '') AS agent,
    if(by_agent, session, 0) AS session,
    fromUnixTimestamp64Micro(accepted_ms * 1000 + if(nth = 2, 2000000, 0), 'UTC') AS received_at,
    reinterpretAsUUID(if(by_agent, bitOr(bitShiftLeft(toUInt128(session), 64), toUInt128(session)), toUInt128(0))) AS session_id,
    url AS content_url,
    '' AS content_id,
    if(has_agent, toString(reinterpretAsUUID(identity)), '') AS content_telemetry_id,
    toString(reinterpretAsUUID(key)) AS event_id,
    if(by_agent, hex(session), '') AS turn_id,
    '' AS output_id,
    if(by_agent,
        concat('{"media_type":"text/html","scope":"full","cached":false,"chars_ingested":', toString(page * 7919 % 40000),
            ',"tokens_ingested":', toString(intDiv(page * 7919 % 40000, 4)), ',"query_tokens":', toString(draw), '}'),
        concat('{"user_agent":"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ', bot, '/1.2; +https://bots.example/', bot,
            ')","response_status":', toString(status), ',"response_bytes":', toString(bytes), ',"cache_status":"hit","asn":',
            toString(14000 + draw), ',"country":"US"}')) AS data,
    '' AS extra,
    {version:UInt64} AS version,
    toUInt8(0) AS is_deleted
FROM (
    SELECT *, at AS event_place, key AS event FROM facts(first = {first:UInt64}, rows = {rows:UInt64}, base = {base:UInt64},
        step_us = {step_us:Int64}, live_step_us = {live_step_us:Int64}, large_percent = {large_percent:UInt8}))
WHERE draw >= {pick_from:UInt16} AND draw < {pick_to:UInt16}
