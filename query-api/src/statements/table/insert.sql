INSERT INTO statements (id, organization_id, operator, period, lines_by, number, revision, closed_at, sha256, reports, late_reports,
    document, actor_kind, actor_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
RETURNING id, operator, period, lines_by, number, revision, closed_at, sha256, reports, late_reports,
    octet_length(document) AS document_bytes
