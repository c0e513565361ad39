-- Number of entries in the audit trail of the organization $1 with the action $2, or of all.
SELECT count(*) FROM audit_log WHERE organization_id = $1 AND ($2::text IS NULL OR action = $2)
