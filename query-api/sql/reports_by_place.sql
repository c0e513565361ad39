-- The reports at the given places, in the same order, with all members. Reads by primary key and without FINAL, which would
-- merge all versions in the surrounding granules. The newest version of each place counts, unless it is a deletion. `found` is
-- the number of rows, repeated in each row. Only single events show signatures, and only exports show IDs of content, turn and
-- output, so lists don't read these columns.
SELECT
    count() OVER () AS found,
    organization,
    identity,
    at_ms,
    received,
    is_issuers,
    type,
    source_role,
    role,
    platform,
    session,
    link_is_taken,
    link_site,
    agent,
    url,
    content_telemetry_id,
    event_id,
    content_id,
    turn_id,
    output_id,
    data,
    extra,
    signature_result,
    signature_reason,
    signed_by,
    signature_proof
FROM (
    SELECT
        toUInt32(indexOf(arrayMap(text -> toUInt128(text), {identities:Array(String)}), identity)) AS place,
        organization,
        identity,
        toUnixTimestamp64Milli(at) AS at_ms,
        received,
        is_issuers,
        type,
        source_role,
        role,
        platform,
        session,
        toUInt8(link = 'taken') AS link_is_taken,
        -- As in events: empty if session and agent may be shown, - if nobody may see them.
        multiIf(link != 'other', '', reports.link_site = '', '-', reports.link_site) AS link_site,
        agent,
        url,
        content_telemetry_id,
        event_id,
        if({is_export:UInt8}, reports.content_id, '') AS content_id,
        if({is_export:UInt8}, reports.turn_id, '') AS turn_id,
        if({is_export:UInt8}, reports.output_id, '') AS output_id,
        data,
        extra,
        if({shows_signatures:UInt8}, toInt8(signature), toInt8(0)) AS signature_result,
        if({shows_signatures:UInt8}, toString(reports.signature_reason), '') AS signature_reason,
        if({shows_signatures:UInt8}, reports.signed_by, '') AS signed_by,
        if({shows_signatures:UInt8}, reports.signature_proof, '') AS signature_proof,
        is_deleted
    FROM reports
    WHERE (organization, at, identity) IN (
        SELECT reporter, fromUnixTimestamp64Milli(reported_ms, 'UTC'), report
        FROM system.one
        ARRAY JOIN
            {organizations:Array(UUID)} AS reporter,
            {times_ms:Array(Int64)} AS reported_ms,
            arrayMap(text -> toUInt128(text), {identities:Array(String)}) AS report
    )
    ORDER BY version DESC
    LIMIT 1 BY organization, at, identity
)
WHERE is_deleted = 0
ORDER BY place
