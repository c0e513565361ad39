-- A compaction: merges the reports of some delta parts into the base, as one part. It has the same query_id as every other one of
-- its database, so that the server runs one at a time; a token for deduplication would not do: of two inserts at the same moment
-- this engine may take both.
-- epoch: the compaction this one follows; it inserts nothing where another has followed it.
-- compactor: a number of this attempt alone.
-- parts, low, high: of which delta parts, and of which range of key_low, the reports are merged.
-- The row of the empty site is written by every compaction; where it has this attempt's number, the base has the reports for good.
INSERT INTO retrieval_index (tier, site, placed_at, key_low, key_high, revision, compactor, needs_merge, roles,
    rank, received, org, observer, role, at, event_type, url, session, platform, agent, link_site, others)
WITH
    (SELECT max(revision) FROM retrieval_index WHERE tier = 'base' AND site = '') = {epoch:UInt64} AS is_next,
    touched AS MATERIALIZED (
        SELECT DISTINCT key_low FROM retrieval_index
        WHERE tier = 'delta' AND _part IN {parts:Array(String)} AND key_low BETWEEN {low:UInt64} AND {high:UInt64}),
    -- Every known report of the touched keys, and where its retrieval lies already.
    reports AS (
        SELECT site, key_low, key_high, CAST(NULL, 'Nullable(DateTime64(3, \'UTC\'))') AS place, toUInt8(2) AS was_merge,
            (rank, received, org, observer, role, at, event_type, url, session, platform, agent, link_site) AS report
        FROM retrieval_index
        WHERE tier = 'delta' AND _part IN {parts:Array(String)} AND key_low BETWEEN {low:UInt64} AND {high:UInt64}
        UNION ALL
        SELECT site, key_low, key_high, placed_at, needs_merge,
            arrayJoin(arrayConcat([(rank, received, org, observer, role, at, event_type, url, session, platform, agent, link_site)], others)) AS report
        -- The key is part of the place of a row: what is filtered by it before rows are replaced is filtered rightly.
        FROM retrieval_index FINAL
        PREWHERE key_low IN (SELECT key_low FROM touched) WHERE tier = 'base' AND site != ''),
    -- Of each observer its oldest report. Fields by position: 2 received, 3 org, 4 observer, 5 role, 6 at, 7 event_type.
    oldest AS (
        SELECT site, key_low, key_high, min((report.2, report)).2 AS kept, max(place) AS base_place, min(was_merge) AS base_merge,
            minIf((report.2, report), place IS NOT NULL).2 AS kept_before
        FROM reports GROUP BY site, key_low, key_high, report.3, report.4),
    -- Each retrieval with its reports by precedence, now and as the base has them.
    retrievals AS (
        SELECT site, key_low, key_high, arraySort(groupArray(kept)) AS told,
            arraySort(groupArrayIf(kept_before, base_place IS NOT NULL)) AS told_before,
            coalesce(max(base_place), min(kept.6)) AS place, max(base_place) IS NULL AS is_new, min(base_merge) AS merge_before,
            count() OVER (PARTITION BY key_low, key_high) > 1 OR arrayExists(r -> startsWith(r.7, 'turn_'), told) AS merge_now
        FROM oldest GROUP BY site, key_low, key_high)
SELECT 'base', site, place, key_low, key_high, {epoch:UInt64} + 1, {compactor:UInt64}, merge_now,
    toUInt8(arrayReduce('groupBitOr', arrayMap(r -> toUInt8(bitShiftLeft(1, r.5)), told))),
    told[1].1, told[1].2, told[1].3, told[1].4, told[1].5, told[1].6, told[1].7, told[1].8, told[1].9, told[1].10, told[1].11, told[1].12,
    arraySlice(told, 2)
FROM retrievals
WHERE is_next AND (is_new OR told != told_before OR merge_now != merge_before)
UNION ALL
SELECT 'base', '', toDateTime64(0, 3, 'UTC'), 0, 0, {epoch:UInt64} + 1, {compactor:UInt64}, 0, 0,
    0, 0, 0, 0, 0, toDateTime64(0, 3, 'UTC'), '', '', 0, toUUID('00000000-0000-0000-0000-000000000000'), '', '', []
WHERE is_next
