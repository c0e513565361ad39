-- Fetches the current rows of known keys. The places select granules by the primary key; the key is cheap to compare for each row
-- in them, before any other column is read. Without FINAL, because LIMIT BY keeps the newest version at each place.
SELECT site, key, home, type, url, link_site, bot, operator, purpose, verified, status, bytes,
    reports.organization, reports.platform, reports.role, reports.drain, reports.agent, reports.session, reports.at, reports.received,
    reports.identity, reports.home, reports.details, is_deleted
FROM events
PREWHERE key IN (SELECT key FROM places) AND (site, at, key) IN places
ORDER BY version DESC
LIMIT 1 BY site, at, key
FORMAT RowBinary
