-- Events with parts both in an expired month and in a later one. The parts are the event's row and the rows of its reports. Home 0
-- means the event's home.
SELECT home, site, at, key, reports.organization, reports.platform, reports.at, reports.identity, reports.home
FROM events FINAL
WHERE if(home < {first_month:UInt32},
    arrayExists(own -> own >= {first_month:UInt32}, reports.home),
    arrayExists(own -> own != 0 AND own < {first_month:UInt32}, reports.home))
LIMIT {most:UInt64}
FORMAT RowBinary
