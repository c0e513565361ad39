-- Events of which a part is in a month and another part isn't: their own row, or the row of a report. A home of 0 is the event's.
SELECT home, site, at, key, reports.organization, reports.platform, reports.at, reports.identity, reports.home
FROM events FINAL
WHERE if(home = {home:UInt32}, arrayExists(own -> own NOT IN (0, {home:UInt32}), reports.home), has(reports.home, {home:UInt32}))
LIMIT {most:UInt64}
FORMAT RowBinary
