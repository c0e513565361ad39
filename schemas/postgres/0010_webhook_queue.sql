-- The status of each delivery. Messages and statuses are separate tables, because each has its own writer: identity-api writes a
-- message once, in the transaction of the change, and stream-workers updates its status.

-- One row per delivery, inserted by the trigger below in the transaction that writes the message, so a deliverer never has
-- to search for new messages. A pending row is due at `due_at`. During an attempt, `due_at` is when the attempt counts as
-- lost, and `lease` identifies the deliverer. Leases only reduce duplicate work: a deliverer that lost its lease writes
-- nothing, and the delivery is attempted again. `attempts` counts finished attempts. Written by stream-workers.
CREATE TABLE webhook_queue (
    delivery_id      uuid PRIMARY KEY REFERENCES webhook_deliveries ON DELETE CASCADE,
    endpoint_id      uuid NOT NULL,
    organization_id  uuid NOT NULL,
    sender_id        uuid,                           -- the other organization that made the change; null: the endpoint's own
    is_unverified    boolean NOT NULL DEFAULT false, -- the sender is a content owner without a verified domain
    status           text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'dead_letter', 'dropped')),
    had_no_room      boolean NOT NULL DEFAULT false, -- dropped because the queue of its endpoint was full
    attempts         int NOT NULL DEFAULT 0,
    due_at           timestamptz NOT NULL,
    lease            uuid,
    ended_at         timestamptz,
    last_attempt_at  timestamptz,
    last_outcome     text,
    last_status_code int,
    last_duration_ms bigint,
    CHECK ((status = 'pending') = (ended_at IS NULL)),
    CHECK (lease IS NULL OR status = 'pending')
);
CREATE INDEX webhook_queue_pending ON webhook_queue (endpoint_id, due_at, delivery_id) WHERE status = 'pending';
CREATE INDEX webhook_queue_by_sender ON webhook_queue (endpoint_id, is_unverified, sender_id)
    WHERE status = 'pending' AND sender_id IS NOT NULL;
CREATE INDEX webhook_queue_ended ON webhook_queue (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX webhook_queue_without_room ON webhook_queue (ended_at) WHERE had_no_room;
-- For the latest attempt in the list of endpoints, however many deliveries an endpoint has.
CREATE INDEX webhook_queue_by_attempt ON webhook_queue (endpoint_id, last_attempt_at) WHERE last_attempt_at IS NOT NULL;

-- Returns whether more than `count` deliveries are pending for an endpoint.
CREATE FUNCTION webhook_backlog_exceeds(endpoint uuid, count bigint) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (SELECT FROM webhook_queue WHERE endpoint_id = endpoint AND status = 'pending' OFFSET count LIMIT 1)
$$;

-- Returns whether a sender's share of an endpoint's queue is full. Another organization may use a hundredth of the queue, and all
-- content owners without a verified domain together half of it, so new accounts can't displace others' messages. Writers of one
-- sender hold its row or the pair's lock, so they run one after the other.
CREATE FUNCTION webhook_share_is_full(endpoint uuid, sender uuid, unverified boolean, most bigint) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (SELECT FROM webhook_queue WHERE endpoint_id = endpoint AND status = 'pending'
                   AND is_unverified = unverified AND sender_id = sender OFFSET greatest(most / 100, 1) - 1 LIMIT 1)
        OR (unverified AND EXISTS (SELECT FROM webhook_queue WHERE endpoint_id = endpoint AND status = 'pending'
                                   AND is_unverified AND sender_id IS NOT NULL OFFSET greatest(most / 2, 1) - 1 LIMIT 1))
$$;

-- Returns whether the endpoint's queue, or the sender's share of it, is full. The limit prevents a dead endpoint, or an
-- organization that floods its own, from filling the database. identity-api sets it (TELEMETRY_WEBHOOK_PENDING) on its
-- connections; others use the default. From 1,000 below half the limit, each writer holds a lock until it commits, so concurrent
-- writers can't exceed the limit. Below that, no lock is needed: the remaining room far exceeds the writes in progress.
CREATE FUNCTION webhook_backlog_is_full(endpoint uuid, sender uuid, unverified boolean) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    most bigint := coalesce(nullif(current_setting('telemetry.webhook_pending', true), '')::bigint, 10000);
BEGIN
    IF most <= 2000 OR webhook_backlog_exceeds(endpoint, most / 2 - 1000) THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(endpoint::text, 11));
    END IF;
    RETURN webhook_share_is_full(endpoint, sender, unverified, most) OR webhook_backlog_exceeds(endpoint, most - 1);
END $$;

-- A delivery to a full queue is logged as dropped, with its body, and can be sent again once there is room.
CREATE FUNCTION queue_webhook_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sender uuid := nullif(NEW.sender_id, NEW.organization_id);
    unverified boolean := EXISTS (SELECT FROM organizations o WHERE o.id = sender AND o.org_type = 'content_owner'
        AND NOT EXISTS (SELECT FROM domains WHERE organization_id = o.id AND verified_at IS NOT NULL AND released_at IS NULL));
    is_full boolean := webhook_backlog_is_full(NEW.endpoint_id, sender, unverified);
BEGIN
    INSERT INTO webhook_queue (delivery_id, endpoint_id, organization_id, sender_id, is_unverified, due_at, status, ended_at,
                               had_no_room)
    VALUES (NEW.id, NEW.endpoint_id, NEW.organization_id, sender, unverified, now(),
            CASE WHEN is_full THEN 'dropped' ELSE 'pending' END, CASE WHEN is_full THEN now() END, is_full);
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_delivery_is_queued AFTER INSERT ON webhook_deliveries
    FOR EACH ROW EXECUTE FUNCTION queue_webhook_delivery();

-- Queues a delivery again; fails when the queue is full.
CREATE FUNCTION queue_webhook_redelivery() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    waits webhook_queue;
BEGIN
    SELECT * INTO waits FROM webhook_queue WHERE delivery_id = NEW.delivery_id;
    IF waits.status <> 'pending' AND webhook_backlog_is_full(waits.endpoint_id, NULL, false) THEN
        RAISE EXCEPTION 'no more deliveries may wait for this endpoint'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'webhook_backlog_has_room';
    END IF;
    UPDATE webhook_queue SET status = 'pending', attempts = 0, due_at = now(), lease = NULL, ended_at = NULL, had_no_room = false
    WHERE delivery_id = NEW.delivery_id;
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_redelivery_is_queued AFTER INSERT ON webhook_redeliveries
    FOR EACH ROW EXECUTE FUNCTION queue_webhook_redelivery();

-- Drops what was pending when an endpoint was disabled. The deliverer does the same in its next round; this covers an
-- endpoint that is enabled again before that. Like every writer of an endpoint's queue, it locks the endpoint's row first.
CREATE FUNCTION drop_what_waited_for_webhook() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE webhook_queue SET status = 'dropped', lease = NULL, ended_at = now()
    WHERE endpoint_id = NEW.id AND status = 'pending';
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_endpoint_is_enabled_empty AFTER UPDATE OF disabled_at ON webhook_endpoints
    FOR EACH ROW WHEN (OLD.disabled_at IS NOT NULL AND NEW.disabled_at IS NULL) EXECUTE FUNCTION drop_what_waited_for_webhook();
