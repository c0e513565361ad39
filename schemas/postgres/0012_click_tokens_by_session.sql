-- Deleting an old session asks whether a click token of it is left, and the foreign key asks again.
CREATE INDEX click_tokens_by_session ON click_tokens (organization_id, session_id);
