-- Reports with an id on an owner's hosts: their identities, and the keys with which they may have joined an event. Uses the
-- index of ids and reads all versions: versions of a report have the same id, and `events` determines which reports exist.
SELECT DISTINCT identity, group_key
FROM reports
WHERE event_id = {event_id:String}
    AND site IN (SELECT site FROM sites WHERE above IN (SELECT host FROM asked_hosts) GROUP BY site
        HAVING argMax(above NOT IN (SELECT host FROM foreign_hosts), length(above)))
    AND is_issuers = 0
    AND NOT startsWith(type, 'turn_')
LIMIT {limit:UInt64}
