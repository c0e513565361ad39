-- A page of reconciliation (docs/api/reconciliation.md): fetches by licensee and finding, split by agent, URL or event. Rows as in
-- urls.sql.
SELECT total, toUInt8(place >= {offset:UInt64}) AS is_item, licensee, finding, one_platform AS platform, one_agent AS agent,
    one_url AS url, event, fetch_count, last_ms
FROM (
    SELECT *, rowNumberInAllBlocks() AS place
    FROM (
        SELECT licensee, finding, {of_platform:Identifier} AS one_platform, {of_agent:Identifier} AS one_agent,
            {of_url:Identifier} AS one_url, {of_event:Identifier} AS event, count() AS fetch_count, max(ms) AS last_ms,
            count() OVER () AS total
        FROM (
            SELECT *,
                multiIf(has_bad_signature, 'signature_unverified', is_repeat, 'duplicate_report',
                    has_claim AND has_server, multiIf(
                        of_agent NOT IN ('', 'other') AND operator NOT IN ('', 'other') AND of_agent != operator, 'identity_mismatch',
                        outcome = 'failed', 'content_mismatch',
                        arrayAll(report -> abs(toUnixTimestamp64Milli(report.1) - claim_ms) > 2000, sightings), 'timestamp_mismatch',
                        'matched'),
                    claimed_nearby AND seen_nearby, 'content_mismatch',
                    NOT has_claim, 'missing',
                    notEmpty(near), if(arrayExists(line -> line.2 = 1, near), 'matched', 'content_mismatch'),
                    logs_ids AND (seen_in_hour OR (site, intDiv(ms, 3600000)) IN (SELECT site, hour FROM covered)), 'extra',
                    'no_coverage') AS finding
            FROM (
                SELECT *, if(of_agent = '', operator, of_agent) AS licensee, if(has_claim, named_by, nobody) AS claimant,
                    if(has_claim AND may_name, named, '') AS claiming_agent,
                    (key, toString(organization), toUnixTimestamp64Milli(reported_at), identity) AS one_event,
                    shared_key NOT IN (0, key) AS is_repeat, if(id = '', toString(key), id) AS common_id,
                    arrayFilter(line -> abs(line.1 - ms) <= 2000 AND NOT has(claimants, line.3), times) AS near,
                    max(is_covering) OVER (PARTITION BY site, intDiv(ms, 3600000)) AS seen_in_hour,
                    max(is_covering AND (has_claim OR shared_key != 0)) OVER (PARTITION BY site, intDiv(ms, 86400000)) AS logs_ids,
                    max(has_claim AND NOT is_repeat) OVER nearby AS claimed_nearby,
                    max(has_server AND NOT is_repeat) OVER nearby AS seen_nearby
                FROM fetches
                LEFT JOIN identified ON organization = by_organization AND reported_at = by_at AND identity = by_identity
                LEFT JOIN lines ON site = on_site AND path(url) = on_path AND of_agent = by_operator AND intDiv(ms, 2000) = slot
                WINDOW nearby AS (PARTITION BY site, common_id ORDER BY ms RANGE BETWEEN 3600000 PRECEDING AND 3600000 FOLLOWING)
            )
        )
        WHERE is_asked AND ms >= {since_ms:Int64} AND ms < {until_ms:Int64} AND (has_claim OR (has_server AND outcome = 'fetch'))
            AND ({is_all:UInt8} OR licensee = {licensee:String}) AND {finding:String} IN ('', finding)
        GROUP BY licensee, finding, one_platform, one_agent, one_url, event
        ORDER BY {usual:Identifier} DESC, licensee, finding, one_platform, one_agent, one_url, event
        LIMIT {through:UInt64}
    )
)
WHERE place = 0 OR place >= {offset:UInt64}
ORDER BY place
