-- The reports that have an id, on an owner's hosts: their identities, and the keys under which they may have joined an event.
-- The index of ids finds the places of reports that have the id in any version. Of each place the newest version counts, unless it
-- is a deletion or has another id.
SELECT DISTINCT identity, group_key
FROM (
    SELECT identity, group_key, site, type, event_id, is_deleted
    FROM reports
    WHERE (organization, at, identity) IN (
        SELECT organization, at, identity
        FROM reports
        WHERE event_id = {event_id:String} AND site IN {sites:Array(String)} AND is_issuers = 0
    )
    ORDER BY version DESC
    LIMIT 1 BY organization, at, identity
)
WHERE is_deleted = 0 AND event_id = {event_id:String} AND site IN {sites:Array(String)} AND NOT startsWith(type, 'turn_')
LIMIT {limit:UInt64}
