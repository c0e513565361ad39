-- Number of enabled endpoints of the organizations $1 that are subscribed to the event type $2.
SELECT count(*) FROM webhook_endpoints WHERE organization_id = ANY($1) AND disabled_at IS NULL AND $2 = ANY(event_types)
