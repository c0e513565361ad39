-- How much may wait for one endpoint, so that one that is dead, or an organisation that floods its own, cannot fill the
-- database: what comes above it is in the log as dropped at once, with its body, and can be ordered again once there is room.
-- identity-api says how much (TELEMETRY_WEBHOOK_PENDING) as a setting of its connections; a connection that says nothing means
-- the default. Both functions replace those of 0010 and do the same otherwise.

-- Whether more than so many deliveries wait for an endpoint.
CREATE FUNCTION webhook_backlog_exceeds(endpoint uuid, count bigint) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (SELECT FROM webhook_queue WHERE endpoint_id = endpoint AND status = 'pending' OFFSET count LIMIT 1)
$$;

-- Whether no more may wait. Near the limit writers take turns until they commit, so that each counts what the one before has
-- written; the distance is far more than can be under way at a time, and keeps writers apart only where it matters.
CREATE FUNCTION webhook_backlog_is_full(endpoint uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    most bigint := coalesce(nullif(current_setting('telemetry.webhook_pending', true), '')::bigint, 10000);
BEGIN
    IF most > 1000 AND NOT webhook_backlog_exceeds(endpoint, most - 1000) THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(endpoint::text, 11));
    RETURN webhook_backlog_exceeds(endpoint, most - 1);
END $$;

CREATE OR REPLACE FUNCTION queue_webhook_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_full boolean := webhook_backlog_is_full(NEW.endpoint_id);
BEGIN
    INSERT INTO webhook_queue (delivery_id, endpoint_id, organization_id, due_at, status, ended_at)
    VALUES (NEW.id, NEW.endpoint_id, NEW.organization_id, now(),
            CASE WHEN is_full THEN 'dropped' ELSE 'pending' END, CASE WHEN is_full THEN now() END);
    RETURN NULL;
END $$;

-- A wish that finds no room is refused, whole: whoever has it can wish again.
CREATE OR REPLACE FUNCTION queue_webhook_redelivery() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    waits webhook_queue;
BEGIN
    SELECT * INTO waits FROM webhook_queue WHERE delivery_id = NEW.delivery_id;
    IF waits.status <> 'pending' AND webhook_backlog_is_full(waits.endpoint_id) THEN
        RAISE EXCEPTION 'no more deliveries may wait for this endpoint'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'webhook_backlog_has_room';
    END IF;
    UPDATE webhook_queue SET status = 'pending', attempts = 0, due_at = now(), lease = NULL, ended_at = NULL
    WHERE delivery_id = NEW.delivery_id;
    RETURN NULL;
END $$;
