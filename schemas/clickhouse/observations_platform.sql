-- Whose session an observation belongs to: its reporter's, or that of the organisation whose click token bound it.
ALTER TABLE observations
    ADD COLUMN IF NOT EXISTS platform_id UUID DEFAULT org_id COMMENT 'whose session it is' AFTER session_id
