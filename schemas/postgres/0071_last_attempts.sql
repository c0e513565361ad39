-- The latest attempt to an endpoint, for the list of endpoints, however many deliveries an endpoint has.
CREATE INDEX webhook_queue_by_attempt ON webhook_queue (endpoint_id, last_attempt_at) WHERE last_attempt_at IS NOT NULL;
