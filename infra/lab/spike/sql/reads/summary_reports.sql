-- What the API's summary contains: events by type and roles, sessions in all, by role and by agent, counted over all reports.
SELECT figure, role, organization, agent, sum(first_of_agent) AS events, uniqExactMerge(seen) AS sessions, sumMap(by_type) AS types
FROM
(
    SELECT
        arrayJoin([('all', toUInt8(0), toUUID('00000000-0000-0000-0000-000000000000'), ''),
            ('role', one_role, toUUID('00000000-0000-0000-0000-000000000000'), ''),
            ('agent', toUInt8(0), one_organization, one_agent)]) AS of,
        of.1 AS figure, of.2 AS role, of.3 AS organization, of.4 AS agent,
        first_of_agent, seen, by_type
    FROM
    (
        SELECT one_role, one_organization, one_agent, countIf(nth_of_agent = 1) AS first_of_agent,
            uniqExactStateIf(one_session, one_session != 0) AS seen,
            sumMapIf([(type, roles)], [toUInt64(1)], place = 1) AS by_type
        FROM events FINAL
        ARRAY JOIN
            reports.role AS one_role,
            reports.organization AS one_organization,
            reports.agent AS one_agent,
            reports.session AS one_session,
            arrayEnumerate(reports.role) AS place,
            arrayEnumerateUniq(reports.organization, reports.agent) AS nth_of_agent
        WHERE site IN {sites:Array(String)}
    AND at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') AND at < fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
        GROUP BY one_role, one_organization, one_agent
    )
)
GROUP BY figure, role, organization, agent
ORDER BY figure, events DESC
