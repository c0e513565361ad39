-- Generated rows of `events`. reports: 1 returns each event as its first report makes it, 2 as both reports make it.
-- home_by: how rows are divided into partitions.
-- pick_from, pick_to: returns only events whose draw is in this range; 0 and 1000 return all.
CREATE VIEW event_rows AS
WITH
    is_pair AND {reports:UInt8} = 2 AS both,
    has_agent AND NOT both AS agent_alone,
    toDateTime(intDiv(accepted_ms, 1000), 'UTC') AS accepted,
    reinterpretAsUUID(if(has_agent, agent_org, server_org)) AS first_org,
    if(has_agent, 2, server_role) AS first_role,
    toUInt64(bitShiftLeft(accepted_ms * 1000, 12)) AS received
SELECT
    number,
    site,
    at,
    key,
    toUInt32(multiIf(
        {home_by:String} = 'bucket', toYYYYMM(accepted) * 100 + is_large,
        {home_by:String} = 'host', toYYYYMM(accepted) * 100 + if(is_large, host_of_large, 0),
        {home_by:String} = 'week', toYearWeek(accepted, 3),
        {home_by:String} = 'day', toYYYYMMDD(accepted),
        toYYYYMM(accepted))) AS home,
    toUInt8(type) AS type,
    toUInt8(if(both, 2 + server_role, first_role)) AS roles,
    agent,
    session,
    url,
    if(agent_alone, '', bot) AS bot,
    toUInt8(if(agent_alone, 0, agent_number % 3 + 1)) AS purpose,
    toUInt8(if(agent_alone, 0, draw % 3)) AS verification,
    toUInt16(if(agent_alone, 0, status)) AS status,
    toUInt32(if(agent_alone, 0, bytes)) AS bytes,
    toUInt8(0) AS signature,
    toUInt8(multiIf(both, 3, has_agent, 1, 2)) AS tier,
    if(both, [first_org, reinterpretAsUUID(server_org)], [first_org]) AS `reports.organization`,
    arrayMap(role -> toUInt8(role), if(both, [first_role, server_role], [first_role])) AS `reports.role`,
    arrayMap(drain -> toUInt32(drain), if(both, [0, 1], [if(has_agent, 0, 1)])) AS `reports.drain`,
    if(both, [agent, ''], [agent]) AS `reports.agent`,
    if(both, [session, 0], [session]) AS `reports.session`,
    if(both, [at, at + toIntervalMillisecond(draw)], [at]) AS `reports.at`,
    if(both, [received, received + bitShiftLeft(toUInt64(2000000), 12)], [received]) AS `reports.received`,
    if(both, [identity, second_identity], [identity]) AS `reports.identity`,
    {version:UInt64} AS version,
    toUInt8(0) AS is_deleted
FROM facts(first = {first:UInt64}, rows = {rows:UInt64}, base = {base:UInt64}, step_us = {step_us:Int64},
    live_step_us = {live_step_us:Int64}, large_percent = {large_percent:UInt8})
WHERE draw >= {pick_from:UInt16} AND draw < {pick_to:UInt16}
