-- What a session's reporter said beside the members that this service reads, such as `data` or `conformance_level`: an
-- object, as it was written, without what the session's privacy level withholds; what was said first stays.
ALTER TABLE sessions ADD COLUMN extra text;
