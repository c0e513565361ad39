-- Claims the alert that has been due the longest. Only one of several processes gets it.
WITH claimed AS (
    INSERT INTO reconciliation_checks AS known (organization_id, checked_at)
    SELECT organization_id, $1 FROM reconciliation_alerts LEFT JOIN reconciliation_checks AS last USING (organization_id)
    WHERE last.checked_at IS NULL OR last.checked_at <= $2
    ORDER BY last.checked_at NULLS FIRST, organization_id
    LIMIT 1
    ON CONFLICT (organization_id) DO UPDATE SET checked_at = $1 WHERE known.checked_at <= $2
    RETURNING organization_id
)
SELECT organization_id, min_events, share FROM claimed JOIN reconciliation_alerts USING (organization_id)
