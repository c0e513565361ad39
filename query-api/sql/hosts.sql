-- The beginning of every statement about an owner's hosts. Of the hosts with events, `hosts.sites` are those whose longest host above
-- them that anybody has verified is the owner's; since `hosts.since` they are. The read is about `hosts.asked`, some of them.
--
-- ClickHouse takes the snapshot of a table when it resolves the table's name, and it resolves FROM before conditions. So the snapshot
-- of `events` is older than that of `sites`, which has every host of it, because a host is inserted before its first event: no part
-- of a request is missing because its host is new.
WITH (
    WITH
        (SELECT (hosts, since, domains) FROM owner_hosts) AS owner,
        toInt64(-9223372036854775808) AS undecided,
        arrayFirst(
            time -> time != undecided,
            arrayPushBack(
                arrayMap(
                    end -> transform(left(site, end - 1), owner.1, owner.2, undecided),
                    arrayReverse(arrayCumSum(label -> length(label) + 1, splitByChar('.', site)))),
                {never_ms:Int64})) AS owned_since,
        groupUniqArray((site, owned_since)) AS owned
    SELECT CAST(
        (
            -- No host is called so; `transform` requires lists that are not empty.
            arrayPushFront(owned.1, '-'),
            arrayPushFront(owned.2, {never_ms:Int64}),
            if({asked:String} = '', owned.1, arrayFilter(host -> startsWith(concat(host, '.'), concat({asked:String}, '.')), owned.1))
        ),
        'Tuple(sites Array(String), since Array(Int64), asked Array(String))')
    FROM sites
    WHERE (domain IN (SELECT arrayJoin(owner.3))
        -- A registrable domain can be beneath another one: x.mythic-beasts.com is a public suffix, mythic-beasts.com isn't.
        OR (domain > {first:String} AND domain < {end:String}
            AND arrayExists(
                end -> left(domain, end - 1) IN (SELECT arrayJoin(owner.1)),
                arrayCumSum(label -> length(label) + 1, splitByChar('.', domain)))))
        AND owned_since != {never_ms:Int64}
) AS hosts
