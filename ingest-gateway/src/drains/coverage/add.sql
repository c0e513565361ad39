-- Adds a body to the hours of its drain, unless it was added before; all or nothing.
WITH body AS (
    INSERT INTO drain_bodies (source, digest, received_at) VALUES ($1, $5, $6)
    ON CONFLICT DO NOTHING
    RETURNING source
),
bad AS (
    INSERT INTO drain_bad_lines (source, digest, n, reason, excerpt, seen_at)
    SELECT source, $5, n, reason, excerpt, $6
    FROM body CROSS JOIN unnest($15::text[], $16::text[]) WITH ORDINALITY AS bad (reason, excerpt, n)
    ON CONFLICT DO NOTHING
)
INSERT INTO drain_hours AS known
    (source, organization_id, provider, drain_id, hour, lines, kept, people, bad, dropped, bytes, lag_ms, received_at)
SELECT source, $2, $3, $4, hour, lines, kept, people, bad, dropped::jsonb, bytes, lag_ms, $6
FROM body CROSS JOIN unnest($7::timestamptz[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[],
                            $13::bigint[], $14::bigint[]) AS hours (hour, lines, kept, people, bad, dropped, bytes, lag_ms)
ON CONFLICT (source, hour) DO UPDATE SET
    lines = known.lines + excluded.lines,
    kept = known.kept + excluded.kept,
    people = known.people + excluded.people,
    bad = known.bad + excluded.bad,
    dropped = (
        SELECT coalesce(jsonb_object_agg(reason, count), '{}')
        FROM (
            SELECT reason, sum(count::bigint) AS count
            FROM (SELECT * FROM jsonb_each_text(known.dropped) UNION ALL SELECT * FROM jsonb_each_text(excluded.dropped))
                AS both_counts (reason, count)
            GROUP BY reason
        ) AS sums
    ),
    bytes = known.bytes + excluded.bytes,
    lag_ms = greatest(known.lag_ms, excluded.lag_ms),
    received_at = greatest(known.received_at, excluded.received_at)
