-- Which deliveries were dropped because too many waited for their endpoint (0011), so that they can be counted apart from what
-- was dropped with its endpoint: one organisation's dead receiver is that organisation's matter, many at once are the operator's.
-- A delivery that is ordered again is no longer one of them. Both functions replace those of 0011 and do the same otherwise.

ALTER TABLE webhook_queue ADD COLUMN had_no_room boolean NOT NULL DEFAULT false;
CREATE INDEX webhook_queue_without_room ON webhook_queue (ended_at) WHERE had_no_room;

CREATE OR REPLACE FUNCTION queue_webhook_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_full boolean := webhook_backlog_is_full(NEW.endpoint_id);
BEGIN
    INSERT INTO webhook_queue (delivery_id, endpoint_id, organization_id, due_at, status, ended_at, had_no_room)
    VALUES (NEW.id, NEW.endpoint_id, NEW.organization_id, now(),
            CASE WHEN is_full THEN 'dropped' ELSE 'pending' END, CASE WHEN is_full THEN now() END, is_full);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION queue_webhook_redelivery() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    waits webhook_queue;
BEGIN
    SELECT * INTO waits FROM webhook_queue WHERE delivery_id = NEW.delivery_id;
    IF waits.status <> 'pending' AND webhook_backlog_is_full(waits.endpoint_id) THEN
        RAISE EXCEPTION 'no more deliveries may wait for this endpoint'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'webhook_backlog_has_room';
    END IF;
    UPDATE webhook_queue SET status = 'pending', attempts = 0, due_at = now(), lease = NULL, ended_at = NULL, had_no_room = false
    WHERE delivery_id = NEW.delivery_id;
    RETURN NULL;
END $$;
