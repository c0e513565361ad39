-- Adds counts of rejections. The same index of each array is one reason.
INSERT INTO refused_reports
    (organization_id, hour, route, code, field, rule, status, requests, last_at, last_request_id)
SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bigint[],
                     $9::timestamptz[], $10::text[])
ON CONFLICT (organization_id, hour, route, code, field, rule) DO UPDATE SET
    requests = refused_reports.requests + excluded.requests,
    last_at = greatest(refused_reports.last_at, excluded.last_at),
    last_request_id = CASE WHEN excluded.last_at >= refused_reports.last_at
                           THEN excluded.last_request_id ELSE refused_reports.last_request_id END
