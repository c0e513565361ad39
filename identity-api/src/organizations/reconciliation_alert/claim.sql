-- Marks new exceptions as announced and returns them. The primary key admits each one once.
WITH claimed AS (
    INSERT INTO reconciliation_messages (organization_id, day, operator)
    SELECT organization_id, day, operator FROM reconciliation_exceptions AS found
    WHERE NOT EXISTS (SELECT FROM reconciliation_messages AS known WHERE known.organization_id = found.organization_id
                      AND known.day = found.day AND known.operator = found.operator)
    ORDER BY organization_id, day, operator
    LIMIT $1
    ON CONFLICT DO NOTHING
    RETURNING organization_id, day, operator
)
SELECT organization_id, day, operator, differing, compared
FROM claimed JOIN reconciliation_exceptions USING (organization_id, day, operator)
ORDER BY organization_id, day, operator
