-- Dead letters and their retries, for operators (docs/api/identity.md#dead-letters).

-- A copy of the topic of rejected records, without content. Rows of expired letters are deleted. Written by stream-workers.
CREATE TABLE dead_letters (
    id              uuid PRIMARY KEY,
    origin          text NOT NULL UNIQUE, -- topic/partition/offset of the record
    reason          text NOT NULL,
    rejected_at     timestamptz NOT NULL,
    bytes           bigint NOT NULL,
    organization_id uuid,                 -- the reporter, from the record's headers
    request_id      text,                 -- of the write, from the record's headers
    restored_as     text,                 -- topic/partition/offset of the copy on the log
    tried_at        timestamptz,          -- requested_at of the latest retry that a worker has started
    refusal         text                  -- why that retry restored nothing
);
CREATE INDEX dead_letters_by_time ON dead_letters (rejected_at DESC, id);

-- The latest retry that an operator requested. Written by identity-api.
CREATE TABLE dead_letter_retries (
    dead_letter_id uuid PRIMARY KEY REFERENCES dead_letters ON DELETE CASCADE,
    requested_at   timestamptz NOT NULL
);
