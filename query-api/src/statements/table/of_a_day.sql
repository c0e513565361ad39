-- Statements that an organization has created since a time, and compressed bytes of their documents and evidence.
SELECT count(*), coalesce(sum(octet_length(document) + (SELECT coalesce(sum(octet_length(content)), 0) FROM statement_evidence
    WHERE statement_id = id)), 0)::bigint
FROM statements WHERE organization_id = $1 AND closed_at > $2
