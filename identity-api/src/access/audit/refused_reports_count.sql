-- Number of reasons for rejected reports of the organization $1 since the hour of $2.
SELECT count(*) FROM (
    SELECT DISTINCT route, status, code, field, rule FROM refused_reports
    WHERE organization_id = $1 AND hour >= date_trunc('hour', $2::timestamptz, 'UTC')
) AS reasons
