-- Reports of divided events that an event without expired parts names too.
SELECT identity
FROM
(
    SELECT arrayJoin(arrayMap(own -> if(own = 0, key, own), reports.identity)) AS identity
    FROM events FINAL
    WHERE home >= {first_month:UInt32} AND NOT arrayExists(own -> own != 0 AND own < {first_month:UInt32}, reports.home)
)
WHERE identity IN
(
    SELECT arrayJoin(arrayMap(own -> if(own = 0, key, own), reports.identity))
    FROM events FINAL
    WHERE if(home < {first_month:UInt32},
        arrayExists(own -> own >= {first_month:UInt32}, reports.home),
        arrayExists(own -> own != 0 AND own < {first_month:UInt32}, reports.home))
)
FORMAT RowBinary
