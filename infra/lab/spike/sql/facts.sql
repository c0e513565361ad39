-- Generated events, in order of time. Every column depends only on the number, so the same event can be generated again.
--
-- first, rows: the numbers to generate.
-- base: the number accepted at 2026-09-15 12:00 UTC, a Tuesday. Earlier events are step_us apart, later ones live_step_us.
-- large_percent: share of the large domain, com.example with four hosts. The rest goes to 500 other domains, half of which sort
-- before it and half after it.
CREATE VIEW facts AS
WITH
    intHash64(number * 3) AS a,
    intHash64(number * 3 + 1) AS b,
    intHash64(number * 3 + 2) AS c,
    toUnixTimestamp64Milli(toDateTime64('2026-09-15 12:00:00', 3, 'UTC')) AS noon_ms,
    toInt64(number) - toInt64({base:UInt64}) AS distance,
    noon_ms + intDiv(distance * if(distance < 0, {step_us:Int64}, {live_step_us:Int64}), 1000) AS accepted_ms,
    -- Most of the large domain's events are on a host that sorts between its other hosts.
    multiIf(bitShiftRight(a, 8) % 100 < 20, 1, bitShiftRight(a, 8) % 100 < 80, 2, bitShiftRight(a, 8) % 100 < 90, 3, 4) AS host_of_large,
    bitShiftRight(a, 24) % 500 AS other,
    concat(if(other < 250, 'dom', 'forum'), toString(other)) AS other_name,
    -- Zipf: 5,000 pages per host of the large domain, 500 of others, 60 agents.
    toUInt32(exp(bitShiftRight(c, 24) % 1048576 / 1048576 * log(if(is_large, 5000, 500)))) AS page
SELECT
    number,
    a % 100 < {large_percent:UInt8} AS is_large,
    host_of_large,
    page,
    if(is_large, ['com.example', 'com.example.news', 'com.example.shop', 'com.example.video'][host_of_large],
        concat('com.', other_name)) AS site,
    if(is_large, ['example.com', 'news.example.com', 'shop.example.com', 'video.example.com'][host_of_large],
        concat(other_name, '.com')) AS host,
    accepted_ms,
    fromUnixTimestamp64Milli(accepted_ms - toInt64(c % 2000), 'UTC') AS at,
    bitOr(bitShiftLeft(toUInt128(a), 64), toUInt128(b)) AS key,
    -- Of 1,000 events, 500 are reported by an agent only, 200 by a server only and 300 by an agent, then by a server.
    b % 1000 AS draw,
    draw < 500 OR draw >= 700 AS has_agent,
    draw >= 500 AS has_server,
    draw >= 700 AS is_pair,
    if(draw % 10 = 0, 8, 4) AS server_role,
    if(has_server, 1, multiIf(draw < 200, 1, draw < 350, 3, draw < 450, 2, draw < 475, 4, 5)) AS type,
    -- A session has five events on average, among a thousand neighbors.
    if(has_agent, intHash64(1000000007 * (intDiv(number, 1000) * 200 + bitShiftRight(b, 16) % 200)), 0) AS session,
    toUInt8(exp(if(has_agent, session, bitShiftRight(b, 16)) % 1048576 / 1048576 * log(60))) AS agent_number,
    if(has_agent, concat('agent-', toString(agent_number)), '') AS agent,
    bitOr(bitShiftLeft(toUInt128(7), 122), toUInt128(agent_number % 17)) AS agent_org,
    bitOr(bitShiftLeft(toUInt128(9), 120), toUInt128(if(is_large, 1, other + 2))) AS server_org,
    if(has_server, ['GPTBot', 'PerplexityBot', 'ClaudeBot', 'Googlebot', 'bingbot', 'MistralAI-User', 'other', 'Amazonbot',
        'CCBot'][agent_number % 9 + 1], '') AS bot,
    concat('https://', host, '/', ['politics', 'economy', 'sports', 'science', 'culture', 'travel'][page % 6 + 1],
        '/2026/09/the-title-of-a-page-', toString(page)) AS url,
    if(has_server, if(page % 10 = 9, 304, 200), 0) AS status,
    if(has_server, page * 2654435761 % 200000 + 2000, 0) AS bytes,
    -- Identities of the first and the second report; 0 if it equals the key.
    if(has_agent, bitOr(bitShiftLeft(toUInt128(b), 64), toUInt128(c)), toUInt128(0)) AS identity,
    bitOr(bitShiftLeft(toUInt128(c), 64), toUInt128(a)) AS second_identity
FROM numbers_mt({first:UInt64}, {rows:UInt64})
