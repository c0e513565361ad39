-- What stands for `owned_since(site)` in statements if others own or owned hosts beneath the owner's: since when a host's events are
-- the owner's. The longest host above it that anybody has verified decides. Hosts in `owner_hosts` end with a dot.
transform(
    site,
    ((
        WITH
            (SELECT (hosts, since) FROM owner_hosts) AS verified,
            toInt64(-9223372036854775808) AS undecided
        SELECT (arrayPushFront(groupArray(one_site), '-'), arrayPushFront(groupArray(one_since), {never_ms:Int64}))
        FROM (
            SELECT DISTINCT
                site AS one_site,
                arrayFirst(
                    since -> since != undecided,
                    arrayMap(
                        end -> transform(left(concat(site, '.'), end), verified.1, verified.2, undecided),
                        arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', site))))) AS one_since
            FROM sites
            WHERE above IN (SELECT host FROM asked_hosts)
        )
    ) AS owned).1,
    owned.2,
    {never_ms:Int64})
