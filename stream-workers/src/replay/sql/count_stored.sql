-- Counts events, and rows that a writer has left.
SELECT
    assumeNotNull((SELECT count() FROM events FINAL)),
    assumeNotNull((SELECT count() FROM progress)) + assumeNotNull((SELECT count() FROM reports))
