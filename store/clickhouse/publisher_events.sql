-- Events that the owner of a host and its subdomains sees, for operators' dashboards: publisher_events(site = 'com.example'), with
-- the host's labels reversed. One row per event. Figures equal those of the owner's reads if the owner has always had all of these
-- hosts.
CREATE VIEW IF NOT EXISTS publisher_events AS
WITH
    link_site = '' OR link_site = {site:String} OR startsWith(link_site, concat({site:String}, '.')) AS is_told
SELECT
    events.at AS at,
    toDate(events.at) AS day,
    url AS content_url,
    type AS event_type,
    events.outcome AS outcome,
    if(is_claim AND is_told, toString(agent), '') AS claimed_by,
    -- A session that the owner can't see doesn't make a claim.
    toUInt8(events.is_claimed AND (is_told OR role = 1)) AS is_claimed,
    events.is_seen AS is_seen
FROM events FINAL
WHERE (site = {site:String} OR startsWith(site, concat({site:String}, '.'))) AND NOT startsWith(type, 'turn_')
SETTINGS do_not_merge_across_partitions_select_final = 1, optimize_move_to_prewhere_if_final = 0, use_query_condition_cache = 0,
    use_skip_indexes_if_final = 0, enable_shared_storage_snapshot_in_query = 1
